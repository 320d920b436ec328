// Combinations: what is right key by key and still cannot be.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/load.h"
#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// Characters of its name: <run>-<role>-<index> has to fit a host name.
inline constexpr std::size_t longest_role = 10;

// Completes `effective` (short forms spelled out, defaults that depend on other keys) and adds what is
// impossible to `problems`, at its place in `root`. `effective` comes from check_section; what that refused
// is left alone.
void apply_rules(const YamlNode& root, nlohmann::json& effective, const std::vector<std::string>& job_types,
                 const Surroundings& surroundings, Problems& problems);

}  // namespace mlk
