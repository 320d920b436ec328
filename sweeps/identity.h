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

}  // namespace mlk::sweeps
