// Reads the current state of a sweep, with all reports of its trials.
#pragma once

#include <string>

#include "sweeps/trials/observe.h"

namespace mlk::sweeps {

// How long read_sweep() reads logs. mlk needs the logs of trials without a complete result: a user's own
// program leaves no result, and a running trial has no result yet.
enum class Harvest {
  running,  // for a short time; begins with the logs of running trials
  all,      // for a longer time, which usually suffices for all logs
};

// Reads the logs of ended trials without an objective, each log once, and stores these trials with their
// reports in `told`. The ended trials that have an objective are stored there too. Then adds everything in
// `told` to the trials of `status`, and applies verdicts (apply_verdicts()).
void harvest_ended(kube::Client& client, const std::string& name_space, SweepStatus& status,
                   std::map<int, Trial>& told);

// For a short time, reads the logs of running trials, and adds their reports to `told`.
void harvest_running(kube::Client& client, const std::string& name_space, const SweepStatus& status,
                     std::map<int, Trial>& told);

// The name of the run of a trial. Empty if the trial has no run of its own, because it is one index of a Job
// of the sweep. Throws Error{not_found} if the sweep has no such trial.
std::string run_of_trial(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         int number);

// Reads objects and logs. Reads logs for at most 1.5 s (running) or 2 minutes (all), and writes new reports
// into the ledger, best effort. Reads less of a sweep with more than 1000 trials. If such a sweep has ended
// and the ledger has all results, reads neither pods nor logs. Otherwise, with `running`, only finds out
// which trials run, and reads neither results nor logs, so results that are not in the ledger are missing.
// Throws Error{not_found} and ApiError.
SweepStatus read_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                       Harvest harvest);

}  // namespace mlk::sweeps
