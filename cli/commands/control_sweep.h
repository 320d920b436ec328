// Stopping sweeps and single trials of theirs, and letting them go on: for stop, resume and delete.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

struct Session;

namespace kube {
class Client;
}

// Each says on standard error what became of the sweep. All throw Error.
void stop_sweep(kube::Client& client, const std::string& sweep, Session& session);
void drain_sweep(kube::Client& client, const std::string& sweep, Session& session);
void resume_sweep(kube::Client& client, const std::string& sweep, Session& session);

// Of a sweep that is driven; Error{usage} for one that the cluster runs by itself: an index of a Job can be
// neither stopped nor removed.
void stop_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                 Session& session);
void resume_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                   Session& session);

// The owners of these trials' runs, to be deleted. What the trials have told is in the ledger afterwards, and
// those that have not ended are stopped for good there: no driver starts them again.
std::vector<nlohmann::json> give_up_trials(kube::Client& client, const std::string& sweep,
                                           const std::vector<int>& numbers, Session& session);

}  // namespace mlk
