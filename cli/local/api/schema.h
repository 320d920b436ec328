// The fields that objects of the served kinds may have, and their types. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"

namespace mlk::local {

// Removes unknown fields from `object` and returns their paths ("spec.template.spec.contaners"). Throws
// StatusError 400 if a known field has a value of the wrong type.
std::vector<std::string> prune_unknown_fields(const Kind& kind, nlohmann::json& object);

}  // namespace mlk::local
