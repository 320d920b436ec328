// A sweep as `mlk status -o json` prints it. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sweeps/trials/observe.h"

namespace mlk::sweeps {

nlohmann::json to_json(const SweepStatus& status);

}  // namespace mlk::sweeps
