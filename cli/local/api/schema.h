// The fields that objects of the served kinds may have, and their types. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"

namespace mlk::local {

// Takes unknown fields out of `object` and returns their paths ("spec.template.spec.contaners").
// Throws Refusal 400 when a known field holds a value of the wrong type.
std::vector<std::string> prune_unknown_fields(const Kind& kind, nlohmann::json& object);

}  // namespace mlk::local
