// The identity of a run: its hash and its name.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/experiment.h"
#include "cli/render/templates.h"

namespace mlk {

struct Identity {
  std::string run;   // <name>-<5 characters>; the second attempt and later ones add -<attempt>
  std::string hash;  // sha256, hexadecimal
};

// `digests`: the sha256 of each file that is sent with the run. Tags, note, registry and the user "auto" do
// not change the identity, because they do not change the programs. The user's own templates change the
// identity. Built-in templates do not change the identity, so that a newer mlk recognises older runs.
Identity identify(const Experiment& experiment, const nlohmann::json& digests, const Templates& templates,
                  int attempt);

// The sha256 of each template of the user, by the path of the template.
std::map<std::string, std::string> own_templates(const Templates& templates);

}  // namespace mlk
