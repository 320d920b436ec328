// Finds versions of an experiment: its runs that have different identities (hashes). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The newest run with the same experiment name that is older than `run` and has another hash. `owners`:
// the metadata of all owners of the name. Owners of sweeps and trials are ignored. nullopt: there is no such
// run.
std::optional<std::string> version_before(const std::vector<nlohmann::json>& owners, const std::string& run);

}  // namespace mlk
