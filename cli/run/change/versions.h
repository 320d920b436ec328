// The versions of an experiment: its runs that differ in what makes a run what it is. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The newest run of the same experiment's name that is older than `run` and of another hash. owners: metadata
// of all owners of the name; those of sweeps and trials do not count. nullopt: there is none.
std::optional<std::string> version_before(const std::vector<nlohmann::json>& owners, const std::string& run);

}  // namespace mlk
