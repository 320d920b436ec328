// Stops and resumes sweeps and single trials, for the commands stop, resume and delete.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/change/hooks.h"

namespace mlk {

namespace kube {
class Client;
}

// Each function reports what it has done to `hooks.note`, and throws Error.
void stop_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);
void drain_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);
void resume_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);

// The two functions below stop and resume single trials of a driven sweep. They throw Error{usage} for a
// sweep that the cluster runs by itself, since mlk cannot stop a single index of a Job.
void stop_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                 const ChangeHooks& hooks);
void resume_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                   const ChangeHooks& hooks);

// Returns the owners of these trials' runs, which the caller then deletes. First stores the reports of the
// trials in the ledger. Then marks trials that have not ended as stopped for good, so that no driver starts
// these trials again.
std::vector<nlohmann::json> give_up_trials(kube::Client& client, const std::string& sweep,
                                           const std::vector<int>& numbers, const ChangeHooks& hooks);

}  // namespace mlk
