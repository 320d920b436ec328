// The state of a sweep, from its objects alone. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/run/state/status.h"
#include "sweeps/space/trial.h"
#include "sweeps/trials/driver_status.h"
#include "sweeps/trials/objects.h"
#include "sweeps/trials/record.h"

namespace mlk::sweeps {

struct Counts {
  int waiting = 0, running = 0, succeeded = 0, failed = 0, stopped = 0;
  int all() const { return waiting + running + succeeded + failed + stopped; }
};

struct SweepStatus {
  std::string sweep, name, mode;
  // incomplete, scheduling, starting, running, stopped, succeeded or failed; as for a run.
  Phase phase = Phase::incomplete;
  std::string why;  // one line; empty if there is nothing to explain
  DriverStatus driver;
  std::optional<Time> created, started, ended;
  Record record;
  Counts counts;
  std::vector<Trial> trials;               // ascending by number
  std::map<int, std::string> newest_pods;  // by the number of the trial
  std::map<std::string, std::string>
      program_of;                // the container of the program of each of them, by the pod's name
  bool jobs_go_on = false;       // the Jobs whose indexes are trials
  std::map<int, Trial> ledger;   // the content of the ledger, by the number of the trial
  bool draining = false;         // no more trials are started; the sweep is stopped when none runs
  bool is_of_one_trial = false;  // keep_trial() has dropped the others: none is the best
  bool cannot_start = false;     // no trial has started, and waiting will not help

  // For trials that are runs.
  std::map<std::string, RunStatus> runs;  // by name
  // By the number of the trial.
  std::map<int, std::string> newest_runs;  // of its newest try, whether that run exists or not
  std::map<int, std::string> waits_for;    // for each that has a run and has not started: the reason, or ""
  std::map<int, std::string> cannot_start_of;  // the reason, for those that waiting will not help
};

SweepStatus observe_sweep(const SweepObjects& objects, Time now);
// The same for a driven sweep, with the runs that take_runs() has moved out of `objects`. Trials in `settled`
// have ended for good: if the ledger has them, it describes them, and they are not read again.
SweepStatus observe_sweep(const SweepObjects& objects, const std::map<std::string, RunObjects>& runs,
                          const std::set<std::string>& settled, Time now);

// Copies the content of a result file (CONTRACT.md) into the trial.
void read_result(const nlohmann::json& result, const std::optional<Objective>& objective, Trial& trial);

// Call after Trial::failure was filled in. A trial that ended with 0 and has a verdict (trial.h) has failed.
// The sweep has failed because of them if no trial has succeeded, or more have failed than may, even if its
// driver had written another phase before the logs were read.
void apply_verdicts(SweepStatus& status);

// The run of the newest try of a trial; nullptr for a trial that has no run, and for an index of a Job.
const RunObjects* run_of(const Trial& trial, const std::map<std::string, RunObjects>& runs,
                         const SweepStatus& status);

// Keeps only that trial. Throws Error{not_found} if there is none of that number.
void keep_trial(SweepStatus& status, int number);

// Compares all trials by the last value of another metric.
void use_objective(SweepStatus& status, const Objective& objective);

// Whether nothing will happen without a driver: trials wait, and no started trial is left that has not ended.
bool needs_driver(const SweepStatus& status);

// The best of the trials that have succeeded, or that report the objective while they run; nullptr if there
// are none.
const Trial* best_of(const SweepStatus& status);

// 0 if the sweep has succeeded: at least one trial has succeeded, and not too many have failed. 5 if it has
// failed, 8 if it is stopped.
ExitCode exit_code(const SweepStatus& status);

}  // namespace mlk::sweeps
