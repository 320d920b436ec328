// What a sweep is doing, from its objects alone. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/run/status.h"
#include "sweeps/driver_status.h"
#include "sweeps/record.h"
#include "sweeps/registry.h"
#include "sweeps/trial.h"

namespace mlk::sweeps {

struct Counts {
  int waiting = 0, running = 0, succeeded = 0, failed = 0, stopped = 0;
  int all() const { return waiting + running + succeeded + failed + stopped; }
};

struct SweepStatus {
  std::string sweep, name, mode;
  // incomplete, scheduling, starting, running, stopped, succeeded, failed, as of a run.
  Phase phase = Phase::incomplete;
  std::string why;  // one line; empty when there is nothing to explain
  DriverStatus driver;
  std::optional<Time> created, started, ended;
  Record record;
  Counts counts;
  std::vector<Trial> trials;               // ascending by number
  std::map<int, std::string> newest_pods;  // of each trial that has one, by its number
  bool jobs_go_on = false;                 // those of which the indexes are trials
  std::map<int, Trial> ledger;             // what the ledger says, by the trial's number
  bool draining = false;                   // no more trials are started; it is stopped when none runs
  bool cannot_start = false;               // no trial has started, and `why` will not end by waiting

  // Of trials that are runs.
  std::map<std::string, RunStatus> runs;  // by name
  // By the number of the trial.
  std::map<int, std::string> newest_runs;      // of its newest try, whether it is there or not
  std::map<int, std::string> waits_for;        // of each that has a run and has not started: why, or nothing
  std::map<int, std::string> cannot_start_of;  // of those of them that will not start by waiting: why
};

SweepStatus observe_sweep(const SweepObjects& objects, Time now);
// The same for a driven sweep, with the runs that take_runs() has taken out of `objects`. Of those in
// `settled`, which have ended for good, the ledger tells, if it can: they are not in `runs`, and cost
// nothing.
SweepStatus observe_sweep(const SweepObjects& objects, const std::map<std::string, RunObjects>& runs,
                          const std::set<std::string>& settled, Time now);

// Puts what a result file says (CONTRACT.md) into the trial.
void read_result(const nlohmann::json& result, const std::optional<Objective>& objective, Trial& trial);

// After Trial::failure was filled in: trials that ended well and have a verdict (trial.h) have failed, and
// with such the sweep has when none is left that ended well, or more have failed than may, whatever its
// driver wrote down before the logs were read.
void apply_verdicts(SweepStatus& status);

// The row of `mlk ls`: from the owner's metadata and the Jobs alone. Steps are trials.
RunStatus row_of_sweep(const RunObjects& objects);
inline constexpr char mode_of_sweeps[] = "sweep";  // of that row

// Leaves only that trial. Throws Error{not_found} when there is none of the number.
void keep_trial(SweepStatus& status, int number);

// Judges all trials by the last value of another metric.
void use_objective(SweepStatus& status, const Objective& objective);

// Whether nothing goes on unless somebody drives the sweep: trials wait, and none was started that has not
// ended.
bool needs_driver(const SweepStatus& status);

// The best of the trials that have ended well, or that tell the objective while they run; nullptr without
// any.
const Trial* best_of(const SweepStatus& status);

// 0 when the sweep has succeeded: not too many of its trials have failed, and one has not. 5, 8 of one that
// has failed or is stopped.
ExitCode exit_code(const SweepStatus& status);

nlohmann::json to_json(const SweepStatus& status);

}  // namespace mlk::sweeps
