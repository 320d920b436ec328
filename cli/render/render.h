// Experiment + templates -> the Kubernetes objects of a run, in the order of their creation. Pure. The
// objects have no owner yet: own() (own.h) sets it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/experiment/experiment.h"
#include "cli/render/identity.h"
#include "cli/render/render_inputs.h"
#include "cli/render/templates.h"

namespace mlk {

struct Rendered {
  std::string run;       // "<name>-<5>"
  std::string hash;      // sha256 of the identity of the run; label mlk.dev/hash holds its first 16 digits
  nlohmann::json owner;  // ConfigMap <run>
  std::vector<nlohmann::json> objects;  // all other objects, in the order of their creation
  std::vector<std::string> warnings;    // for people: "no checkpoint volume: ..."
};

Rendered render(const Experiment& experiment, const FileContents& files, const Templates& templates,
                const RenderOptions& options);

// sha256 of each file that is sent with the run: {"<entry>": {"<file>": "<digest>"}}, of the code:
// {"code.tar": "<digest>"}, and of files that code.python names and that are not in the code:
// {"code.python": "<digest>"}. The keys are distinct, because no entry has a dot in its name. Throws
// Error{usage} for files that cannot be sent.
nlohmann::json digests_of(const Experiment& experiment, const FileContents& files);

}  // namespace mlk
