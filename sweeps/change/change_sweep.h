// Stops and resumes sweeps and single trials; for stop, resume and delete.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/change/hooks.h"

namespace mlk {

namespace kube {
class Client;
}

// Each function reports on standard error. All throw Error.
void stop_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);
void drain_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);
void resume_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);

// For a driven sweep. Throws Error{usage} for a sweep that the cluster runs by itself: an index of a Job can
// be neither stopped nor removed.
void stop_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                 const ChangeHooks& hooks);
void resume_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                   const ChangeHooks& hooks);

// The owners of these trials' runs, for the caller to delete. Afterwards the ledger has the reports of the
// trials, and marks trials that have not ended as stopped for good: no driver starts them again.
std::vector<nlohmann::json> give_up_trials(kube::Client& client, const std::string& sweep,
                                           const std::vector<int>& numbers, const ChangeHooks& hooks);

}  // namespace mlk
