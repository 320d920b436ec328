// The ledger of a sweep in the cluster: ConfigMaps that keep what became of trials when their pods are gone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/trial.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

// The trials that the ledger knows, of the sweep's ConfigMaps.
std::vector<Trial> read_ledger(const std::string& sweep, const std::vector<nlohmann::json>& config_maps);

// How many trials it knows: cheap.
std::size_t lines_of_ledger(const std::string& sweep, const std::vector<nlohmann::json>& config_maps);

// Writes down what is known of trials that have ended, less what the ledger (`config_maps`, as they were
// read) says already: `known` are the trials that read_ledger() found there, by number. Somebody else may
// write at the same time: then theirs is merged with ours and written again. Best effort: false when
// something could not be written; `problem` then says why.
bool write_ledger(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                  const std::vector<nlohmann::json>& config_maps, const std::vector<Trial>& trials,
                  const std::map<int, Trial>& known, std::string* problem = nullptr);

// The same for these trials, also when they have not ended: what they have told, before their pods go.
bool write_lines(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                 const std::vector<nlohmann::json>& config_maps, const std::vector<Trial>& trials,
                 std::string* problem = nullptr);

}  // namespace mlk::sweeps
