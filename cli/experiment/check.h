// A tree held against the schema: unknown keys, types, defaults.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/problems.h"
#include "cli/experiment/schema.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// The node as JSON with every default of the section filled in. `path` is what messages call it; "" is the
// file. What is wrong goes to `problems`, and the result is then incomplete.
nlohmann::json check_section(const YamlNode& node, const Section& section, const std::string& path,
                             Problems& problems);

}  // namespace mlk
