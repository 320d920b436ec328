// The keys of a template, checked before what they hold is evaluated.
#pragma once

#include <string>
#include <vector>

#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// Adds a problem for each key of the map that is not known.
void check_keys(const YamlNode& node, const std::vector<std::string>& known, Problems& problems);

// The child, or a null node; adds a problem if it is of another kind than map or list, whichever is asked
// for.
YamlNode child_of(const YamlNode& node, const char* key, YamlNode::Kind kind, Problems& problems);

}  // namespace mlk
