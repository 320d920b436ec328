// Reads a sweep as it is now, with everything that its trials have told.
#pragma once

#include <string>

#include "sweeps/trials/observe.h"

namespace mlk::sweeps {

// Whose logs to read. Needed for trials that have left no result: programs of the user's leave none, and
// running ones have none yet.
enum class Harvest {
  running,  // as many as a short time allows
  all,      // also of the trials that have ended, however long it takes
};

// Reads the logs of trials that have ended without a result, each once; adds what they say to `told`.
void harvest_ended(kube::Client& client, const std::string& name_space, SweepStatus& status,
                   std::map<int, Trial>& told);

// Reads the logs of running trials, for a short time; adds what they say to `told`.
void harvest_running(kube::Client& client, const std::string& name_space, const SweepStatus& status,
                     std::map<int, Trial>& told);

// The run of a trial, if it has one; empty for an index of a Job. Throws Error{not_found} if the sweep has no
// such trial.
std::string run_of_trial(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         int number);

// Reads objects and logs, for at most 1.5 s (running) or 2 minutes (all). Writes what is new into the ledger,
// best effort. For a sweep of more than 1000 trials, reads only the pods that it needs: none if the ledger
// knows how all trials ended; with `running` only which trials run, without results and logs, so results that
// are not in the ledger are missing. Throws Error{not_found} and ApiError.
SweepStatus read_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                       Harvest harvest);

}  // namespace mlk::sweeps
