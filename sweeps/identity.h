// What makes a sweep that sweep, and no other: its hash and its name. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/yaml.h"
#include "cli/render/identity.h"
#include "cli/render/templates.h"
#include "sweeps/spec.h"

namespace mlk::sweeps {

// `base` is the experiment without its `sweep:`, as it is written: the base values of what is swept do not
// count, nor do tags, note, the values of the space, `parallel` and `max_failures`. So values that are added
// extend the sweep. `digests`: sha256 of each file that travels along.
Identity identify_sweep(const std::string& name, const YamlNode& base, const Spec& spec,
                        const nlohmann::json& digests, const Templates& templates);

// What two sweeps have in common of which one may go on with the code of the other: the hash covers the same,
// but for the image, the program, the data set and the files.
std::string kin_of_sweep(const YamlNode& base, const Spec& spec, const Templates& templates);

}  // namespace mlk::sweeps
