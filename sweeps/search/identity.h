// The identity of a sweep: its hash and its name. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/render/identity.h"
#include "cli/render/templates.h"
#include "cli/yaml/yaml.h"
#include "sweeps/search/spec.h"

namespace mlk::sweeps {

// `base`: the experiment without its `sweep:`, as written. The identity ignores the tags, the note, and the
// values that `base` has for swept parameters. Of `sweep:`, it covers Spec::decides and the paths of the
// parameters, but not their values. So a sweep with added values is still the same sweep. `digests`: the
// sha256 of each file that travels with the sweep.
Identity identify_sweep(const std::string& name, const YamlNode& base, const Spec& spec,
                        const nlohmann::json& digests, const Templates& templates);

// A hash that two sweeps share if one of them may continue with the code of the other. It covers the same
// parts as the identity, except the image, the program, the code, the data set and all files.
std::string kin_of_sweep(const YamlNode& base, const Spec& spec, const Templates& templates);

}  // namespace mlk::sweeps
