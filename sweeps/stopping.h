// Early stopping: which trials need not train to their full length. Pure: what the trials have reported goes
// in, decisions come out. Nothing is remembered between calls, and the order of trials and of reports does
// not matter.
//
// ASHA: Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020.
// The median rule: Golovin et al., "Google Vizier: A Service for Black-Box Optimization", KDD 2017.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sweeps/objective.h"
#include "sweeps/trial.h"

namespace mlk::sweeps {

// How far one trial has come. Resources are steps or epochs, the same for all trials.
struct Progress {
  int number = 0;  // of the trial
  // Waiting: not started yet, or paused at its rung, so that it can be resumed. Succeeded, failed and stopped
  // trials train no further.
  TrialState state = TrialState::waiting;
  std::int64_t until =
      0;  // how far it may train before it is judged, as last decided; 0: nothing was decided
  std::vector<std::pair<std::int64_t, double>> reports;  // resource, and the objective's metric
};

// A value that is not finite is the worst one, and is never among the best.
using Goal = Objective::Goal;

struct AshaOptions {
  std::int64_t min = 1;  // resource before which no trial is judged
  std::int64_t max = 1;  // of a whole trial
  int factor = 4;        // one of so many trials goes on at each rung; 4 in the paper, Determined and Ray
};

// Where trials are compared, the last one being max: max, max/factor, max/factor^2 ..., down to min. Counted
// from above, so that the last step is as long as the others. Throws Error{usage} when min or factor are too
// small, or max is below min.
std::vector<std::int64_t> rungs_of(const AshaOptions& options);

// What a trial is worth at a rung is its last report up to there, or the first behind it when there is none.
// Of two reports of the same resource the worse one counts. A trial that ended well before the rung stands
// there with its last report; one that failed stands, as the worst, at the first rung that it did not reach.

struct Decision {
  enum class Kind {
    start,    // a new trial, until `until`
    promote,  // let the trial train until `until`: resumed from its checkpoint, unless it runs
    pause,    // stop the trial with a checkpoint: it has come to its rung, and may be promoted later
    stop,     // stop the trial for good
  };
  Kind kind = Kind::start;
  int number = -1;         // of the trial; of a start: none
  std::int64_t until = 0;  // of a pause or a stop: the rung to which it came

  bool operator==(const Decision&) const = default;
};

// ASHA as in the paper: a trial trains to the first rung, and further when it is among the best 1/factor of
// those that have come to its rung. At most `free` trials are started or resumed, promotions at high rungs
// first; `unstarted` is how many new trials there are. When none is left to start, to run or to promote, and
// none has come to max, the best one of the highest rung is promoted all the same: a sweep has one whole
// trial.
std::vector<Decision> asha_promotions(const AshaOptions& options, Goal goal,
                                      const std::vector<Progress>& trials, int free, int unstarted);

// ASHA for trials that cannot be resumed, as in Ray and Optuna: each is judged when it has come to a rung,
// and stopped unless it is among the best 1/factor, at least one, of those that have come there so far. Those
// that pass are promoted: until the next rung they are not judged again. Where `until` of a trial is not
// kept, but 0, it is judged in each call, and later ones may push it out. In the order of the numbers.
std::vector<Decision> asha_stops(const AshaOptions& options, Goal goal, const std::vector<Progress>& trials);

struct MedianOptions {
  std::int64_t grace = 1;  // resource before which no trial is stopped
  int min_trials = 3;      // so many must have succeeded before; 3 in Ray and Katib
};

// Stops a running trial whose best report is worse than the median, over the trials that succeeded, of the
// mean of their reports up to where the trial stands. Those without a report up to there count as worst.
// Numbers of trials, ascending. Throws nothing.
std::vector<int> median_stops(const MedianOptions& options, Goal goal, const std::vector<Progress>& trials);

}  // namespace mlk::sweeps
