// Checks a tree against the schema: unknown keys, types, defaults.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/problems.h"
#include "cli/experiment/schema.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// The node as JSON with every default of the section filled in. Messages call the section `path`; "" is the
// file. Adds mistakes to `problems`; after a mistake the result is incomplete.
nlohmann::json check_section(const YamlNode& node, const Section& section, const std::string& path,
                             Problems& problems);

}  // namespace mlk
