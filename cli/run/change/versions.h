// Finds versions of an experiment: its runs that have different identities (hashes). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The newest run that has the same experiment name as `run`, is older than `run`, and has another hash.
// `owners`: the metadata of all owners with this experiment name. Owners of sweeps and trials, and owners
// that are being deleted, are ignored. nullopt: there is no such run.
std::optional<std::string> version_before(const std::vector<nlohmann::json>& owners, const std::string& run);

}  // namespace mlk
