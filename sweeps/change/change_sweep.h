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

// Each of these three functions reports to `hooks.note` what it changes, or why it changes nothing. It throws
// Error if it fails.
void stop_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);
void drain_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);
void resume_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks);

// The two functions below stop and resume single trials. They throw Error{not_found} for a number that no
// trial has, and Error{usage} for a trial that is an index of a Job, since mlk cannot stop a single index.
void stop_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                 const ChangeHooks& hooks);
void resume_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                   const ChangeHooks& hooks);

// Stores the reports of these trials in the ledger. Also records there that each unfinished or stopped trial
// is stopped for good, so that no driver starts the trial again. Returns the owners of the runs of all tries
// of these trials; the caller then deletes these owners.
std::vector<nlohmann::json> give_up_trials(kube::Client& client, const std::string& sweep,
                                           const std::vector<int>& numbers, const ChangeHooks& hooks);

}  // namespace mlk
