// Defaults and rules of the kinds with a spec, as the API server has them. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/local/state/kinds.h"

namespace mlk::local {

void set_defaults(const Kind& kind, nlohmann::json& object);

// Throws Refusal 422. Beside Kubernetes' rules it refuses what pods as local processes cannot be.
void check_rules(const Kind& kind, const nlohmann::json& object);

}  // namespace mlk::local
