// Writes JSON values as YAML text. Every reader of YAML 1.1 or 1.2 reads the same values from this text.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Returns the value in block style, indented by two blanks for each level, with a newline at the end. Pure.
std::string to_yaml(const nlohmann::json& value);

}  // namespace mlk
