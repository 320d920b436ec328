// Computes the state of a sweep from its objects alone. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/run/state/status.h"
#include "sweeps/objects/objects.h"
#include "sweeps/objects/record.h"
#include "sweeps/space/trial.h"
#include "sweeps/trials/driver_status.h"

namespace mlk::sweeps {

struct Counts {
  int waiting = 0, running = 0, succeeded = 0, failed = 0, stopped = 0;
  int all() const { return waiting + running + succeeded + failed + stopped; }
};

struct SweepStatus {
  std::string sweep, name, mode;
  // One of incomplete, scheduling, starting, running, stopped, succeeded and failed, with the same meaning as
  // for a run.
  Phase phase = Phase::incomplete;
  std::string why;  // one line; empty if there is nothing to explain
  DriverStatus driver;
  std::optional<Time> created, started, ended;
  Record record;
  Counts counts;
  std::vector<Trial> trials;               // ascending by number
  std::map<int, std::string> newest_pods;  // by the number of the trial
  std::map<std::string, std::string>
      program_of;                // the container of the program in each of these pods, by the pod's name
  bool jobs_go_on = false;       // a Job whose indexes are trials has not finished
  std::map<int, Trial> ledger;   // the content of the ledger, by the number of the trial
  bool draining = false;         // the driver starts no more trials; the sweep is stopped when no trial runs
  bool is_of_one_trial = false;  // the other trials were dropped, so best_of() finds no best trial
  bool cannot_start = false;     // no trial has started, and the trials wait in vain

  // For trials that are runs.
  std::map<std::string, RunStatus> runs;  // by name
  // By the number of the trial.
  std::map<int, std::string> newest_runs;  // the run of the newest try; this run may not exist
  std::map<int, std::string> waits_for;    // the reason, or "", for each trial whose run waits for its start
  std::map<int, std::string> cannot_start_of;  // the reason, for each trial that waits in vain
};

SweepStatus observe_sweep(const SweepObjects& objects, Time now);
// Like the function above, but for a driven sweep: `runs` are those that extract_runs() has moved out of
// `objects`. Trials whose runs are in `settled` have ended for good: if the ledger has such a trial, the
// state of the trial comes from the ledger, and the run is not read again.
SweepStatus observe_sweep(const SweepObjects& objects, const std::map<std::string, RunObjects>& runs,
                          const std::set<std::string>& settled, Time now);

// Copies the content of a result file (CONTRACT.md) into the trial.
void read_result(const nlohmann::json& result, const std::optional<Objective>& objective, Trial& trial);

// If a trial exited with 0 and has a verdict (trial.h), marks the trial as failed. If, after this, no trial
// has succeeded or too many trials have failed, changes the phase in `status` from "succeeded" to "failed",
// even if the driver has written "succeeded". Call this function after Trial::failure was filled in.
void apply_verdicts(SweepStatus& status);

// The run of the newest try of a trial; nullptr if the trial has no run, or is an index of a Job.
const RunObjects* run_of(const Trial& trial, const std::map<std::string, RunObjects>& runs,
                         const SweepStatus& status);

// Removes all trials except the trial with this number. Throws Error{not_found} if no trial has this number.
void select_trial(SweepStatus& status, int number);

// Replaces the objective of the sweep. Then the objective of each trial is the last value of
// objective.metric.
void use_objective(SweepStatus& status, const Objective& objective);

// Whether a driven sweep stands still until somebody drives it: the sweep has neither ended nor been stopped,
// no trial runs, no trial with a run of its own waits to start, no Job of a driver goes on, and no Job whose
// indexes are trials goes on.
bool needs_driver(const SweepStatus& status);

// The best trial (ranking.h). nullptr if no trial has a rank, if the sweep has no objective, or if
// select_trial() has removed the other trials.
const Trial* best_of(const SweepStatus& status);

// 8 if the sweep is stopped. If the sweep has failed: 1 if no trial has succeeded and the end of a trial is
// unknown, since its Job is gone; otherwise 5. In all other cases 0.
ExitCode exit_code(const SweepStatus& status);

}  // namespace mlk::sweeps
