// Puts values from flags and the environment into the tree of the file, before validation.
#pragma once

#include "cli/experiment/load.h"
#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// Applies the members image, env, set, flags and arguments of `overrides`, in this order; a later value
// replaces an earlier one. `root` must be a map. --set with null removes a value, except in `patch` and
// `parameters`, where null is a value.
void apply_overrides(YamlNode& root, const Overrides& overrides, Problems& problems);

// Returns Overrides::set and then Overrides::flags, all in the form of --set.
std::vector<std::string> settings_of(const Overrides& overrides);

}  // namespace mlk
