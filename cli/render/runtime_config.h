// The configuration of the bundled runtime. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/experiment.h"

namespace mlk {

// The configuration that runtime/CONTRACT.md defines, for an experiment with `train:`.
nlohmann::json runtime_config(const Experiment& experiment);

}  // namespace mlk
