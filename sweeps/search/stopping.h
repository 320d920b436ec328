// Early stopping: decides which trials need not train to their full length. Pure: the input is the reports of
// the trials, and the output is decisions. The functions keep no state between calls, and the order of trials
// and of reports does not matter.
//
// ASHA: Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020.
// The median rule: Golovin et al., "Google Vizier: A Service for Black-Box Optimization", KDD 2017.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sweeps/space/objective.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

// The progress of one trial. Resources are steps or epochs, the same for all trials.
struct Progress {
  int number = 0;  // of the trial
  // waiting: not started yet, or paused at its rung, so that it can be resumed. Trials that succeeded, failed
  // or were stopped train no further.
  TrialState state = TrialState::waiting;
  std::int64_t until = 0;  // the last decision on how far the trial may train; 0: no decision yet
  std::vector<std::pair<std::int64_t, double>> reports;  // the resource, and the value of the metric
};

// With either goal, a value that is not finite counts as the worst value.
using Goal = Objective::Goal;

struct AshaOptions {
  std::int64_t min = 1;  // no trial is judged below this resource
  std::int64_t max = 1;  // the full length of a trial
  int factor = 4;        // each rung promotes one in `factor` trials; the paper uses 4
};

// The resources at which trials are compared: max, max/factor, max/factor^2 ..., rounded down, as long as
// they are at least min. They are returned in ascending order, but computed from max downwards, so that even
// the highest rung is `factor` times the rung below it. Throws Error{usage} if min or factor is too small, or
// max is below min.
std::vector<std::int64_t> rungs_of(const AshaOptions& options);

// The value of a trial at a rung is its last report up to the rung, or else its first report after the rung.
// If two reports have the same resource, the worse report counts. A trial that succeeded before the rung
// counts with its last report. A trial that failed counts as the worst at the first rung that it did not
// reach.

struct Decision {
  enum class Kind {
    start,    // start a trial that the sweep has not started yet; it may train up to `until`
    promote,  // let the trial train until `until`; if the trial is paused, resume it from its checkpoint
    pause,    // stop the trial with a checkpoint: it has reached its rung, and may be promoted later
    stop,     // stop the trial for good
  };
  Kind kind = Kind::start;
  int number = -1;         // of the trial; -1 for a start
  std::int64_t until = 0;  // for pause and stop: the rung that the trial has reached; 0 for a stop by median

  bool operator==(const Decision&) const = default;
};

// ASHA as in the paper: a trial trains to the first rung, and further if it is among the best 1/factor of the
// trials that have reached its rung; until then it is paused. Starts or resumes at most `free` trials,
// promotions at high rungs first; `unstarted` is the number of trials that the sweep has not started yet. If
// no trial is left to start, to run or to promote, and no trial has reached max with a finite value, promotes
// the best trial of the highest rung. So a sweep that has a finite value gets at least one complete trial.
std::vector<Decision> asha_promotions(const AshaOptions& options, Goal goal,
                                      const std::vector<Progress>& trials, int free, int unstarted);

// ASHA for trials that cannot be resumed, as in Ray and Optuna: a trial is judged when it reaches a rung. It
// is promoted if it is among the best 1/factor (at least one) of the trials that have reached the rung so
// far, and stopped otherwise. A promoted trial is not judged again before the next rung, provided that the
// caller stores its `until`. Otherwise each call judges the trial again, and later trials may displace it.
// The decisions are in the order of the trials' numbers.
std::vector<Decision> asha_stops(const AshaOptions& options, Goal goal, const std::vector<Progress>& trials);

struct MedianOptions {
  std::int64_t grace = 1;  // no trial is stopped below this resource
  int min_trials = 3;      // the rule needs so many successful trials; 3 in Ray and Katib
};

// The numbers of the running trials to stop, ascending: those whose best report is worse than the median of
// the successful trials' means up to the same resource. A successful trial without a report up to that
// resource counts as the worst. Does not throw.
std::vector<int> median_stops(const MedianOptions& options, Goal goal, const std::vector<Progress>& trials);

}  // namespace mlk::sweeps
