// The ledger of a sweep in the cluster: ConfigMaps that keep the results of trials when their pods are gone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/space/trial.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

// The trials in the ledger, from the sweep's ConfigMaps.
std::vector<Trial> read_ledger(const std::string& sweep, const std::vector<nlohmann::json>& config_maps);

// The number of trials in the ledger; cheap.
std::size_t lines_of_ledger(const std::string& sweep, const std::vector<nlohmann::json>& config_maps);

// Writes what is known of ended trials, without what the ledger (`config_maps`, as they were read) already
// has. `known`: the trials that read_ledger() found there, by number. If another process writes at the same
// time, its lines are merged with ours and written again. Best effort: false if something could not be
// written, with the reason in `problem`.
bool write_ledger(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                  const std::vector<nlohmann::json>& config_maps, const std::vector<Trial>& trials,
                  const std::map<int, Trial>& known, std::string* problem = nullptr);

// The same for these trials, even if they have not ended: what they have told, before their pods are deleted.
bool write_lines(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                 const std::vector<nlohmann::json>& config_maps, const std::vector<Trial>& trials,
                 std::string* problem = nullptr);

}  // namespace mlk::sweeps
