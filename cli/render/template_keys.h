// Checks the keys of a template before their values are evaluated.
#pragma once

#include <string>
#include <vector>

#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// Adds a problem for each key of the map that is not in `known`.
void check_keys(const YamlNode& node, const std::vector<std::string>& known, Problems& problems);

// Returns the child at `key`, or a null node if there is no such child. If the child is not of `kind`, which
// is map or list, adds a problem and returns a null node.
YamlNode child_of(const YamlNode& node, const char* key, YamlNode::Kind kind, Problems& problems);

}  // namespace mlk
