// Defaults and rules of the kinds with a spec, as Kubernetes has them. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/local/state/kinds.h"

namespace mlk::local {

void set_defaults(const Kind& kind, nlohmann::json& object);

// Throws StatusError 422. In addition to Kubernetes' rules, refuses features that local processes cannot
// have.
void check_rules(const Kind& kind, const nlohmann::json& object);

}  // namespace mlk::local
