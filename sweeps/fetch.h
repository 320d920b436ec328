// A sweep as it is now, with all that its trials have told.
#pragma once

#include <string>

#include "sweeps/observe.h"

namespace mlk::sweeps {

// Logs are read of trials that have not left a result: programs of the user's leave none, and those that run
// have none yet.
enum class Harvest {
  running,  // as many as a short time allows
  all,      // also of the trials that have ended, however long it takes
};

// Reads the logs of trials that have ended without a result, each once: `told` keeps what they said.
void harvest_ended(kube::Client& client, const std::string& name_space, SweepStatus& status,
                   std::map<int, Trial>& told);

// Reads the logs of trials that run, in a short time; `told` gets what they said.
void harvest_running(kube::Client& client, const std::string& name_space, const SweepStatus& status,
                     std::map<int, Trial>& told);

// The run of a trial that has one; empty for an index of a Job. Throws Error{not_found} when the sweep has no
// such trial.
std::string run_of_trial(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         int number);

// Objects and logs, for at most 1.5 s (running) or 2 minutes (all). Writes what it has learnt into the
// ledger, best effort. Of a sweep of more than 1000 trials pods are read only as far as they are needed: none
// when the ledger knows how all trials ended; with `running` no results and no logs, but which trials run, so
// that what nobody has harvested is not seen. Throws Error{not_found} and ApiError.
SweepStatus read_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                       Harvest harvest);

}  // namespace mlk::sweeps
