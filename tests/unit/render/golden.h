// Compares rendered objects with the files in tests/golden/. MLK_UPDATE_GOLDEN=1 rewrites these files.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/experiment/load.h"
#include "cli/render/render.h"

namespace mlk::test {

inline Experiment load(const std::string& text, const Templates& templates = Templates()) {
  return load_experiment(text, "test.yaml", {}, templates.names());
}

// All objects as one List, in the form that `kubectl create -f` accepts.
nlohmann::json as_list(const Rendered& rendered);

// Fails the running test if tests/golden/<name>.json has other content.
void check_golden(const std::string& name, const nlohmann::json& objects);

}  // namespace mlk::test
