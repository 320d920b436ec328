// Values from flags and the environment, put into the tree of the file before validation.
#pragma once

#include "cli/experiment/load.h"
#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// In rising precedence: the image, then -e, then --set. `root` is a map.
void apply_overrides(YamlNode& root, const Overrides& overrides, Problems& problems);

}  // namespace mlk
