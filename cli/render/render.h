// Renders an experiment and templates to the Kubernetes objects of a run, in the order of their creation. The
// objects have no owner yet: own() (own.h) sets the owner. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/experiment/experiment.h"
#include "cli/render/render_inputs.h"
#include "cli/render/templates.h"

namespace mlk {

struct Rendered {
  std::string run;       // "<name>-<5 characters>", see Identity
  std::string hash;      // sha256 of the identity of the run; label mlk.dev/hash holds its first 16 digits
  nlohmann::json owner;  // ConfigMap <run>
  std::vector<nlohmann::json> objects;  // all other objects, in the order of their creation
  std::vector<std::string> warnings;    // for people: "no checkpoint volume: ..."
};

Rendered render(const Experiment& experiment, const FileContents& files, const Templates& templates,
                const RenderOptions& options);

// Returns the sha256 of the files that are sent with the run, in one map with these keys:
// - "<entry>": {"<file>": "<digest>"}, for each entry of `files:`
// - "code.tar": "<digest>", for the code
// - "code.python": "<digest>", for the files that code.python names outside of the code
// No keys collide, because no entry has a dot in its name. Throws Error{usage} for files that cannot be sent.
nlohmann::json digests_of(const Experiment& experiment, const FileContents& files);

}  // namespace mlk
