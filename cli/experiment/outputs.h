// The folders that `outputs:` names. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Removes '.', doubled slashes and slashes at the end from the paths of effective["outputs"]. Returns what is
// wrong with them; empty if nothing is, or if there are no outputs.
std::string tidy_outputs(nlohmann::json& effective);

}  // namespace mlk
