// Checks the tree of a file against the schema: unknown keys, missing keys, and the types of values. Fills in
// defaults.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/schema.h"
#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// Returns the node as JSON with every default of the section filled in. `path`: the name of the section in
// messages, "" for the file itself. Adds mistakes to `problems`; after a mistake the result is incomplete.
nlohmann::json check_section(const YamlNode& node, const Section& section, const std::string& path,
                             Problems& problems);

}  // namespace mlk
