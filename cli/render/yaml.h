// JSON values as YAML text that every reader of YAML 1.1 or 1.2 reads as the same values.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Block style, indented by two blanks, ends with a newline. Pure.
std::string to_yaml(const nlohmann::json& value);

}  // namespace mlk
