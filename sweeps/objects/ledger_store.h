// The ledger of a sweep in the cluster: ConfigMaps that keep the results of trials after the pods of the
// trials are gone.
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

// Writes into the ledger those trials that have ended for good, and are missing or different there.
// `config_maps`: the ledger, as it was read; `known`: the trials that read_ledger() found in the ledger, by
// number. If another process writes at the same time, merges the lines of both processes and writes again.
// Best effort: returns false if a write failed, with the reason in `problem`.
bool write_ledger(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                  const std::vector<nlohmann::json>& config_maps, const std::vector<Trial>& trials,
                  const std::map<int, Trial>& known, std::string* problem = nullptr);

// Like write_ledger(), but also writes trials that have not ended. Call this function before the pods of such
// trials are deleted, since their reports would be lost.
bool write_lines(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                 const std::vector<nlohmann::json>& config_maps, const std::vector<Trial>& trials,
                 std::string* problem = nullptr);

}  // namespace mlk::sweeps
