// JSON values as YAML text that every YAML reader, of 1.1 and 1.2, reads back as the same values.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Block style, two blanks deep, ends with a newline. Pure.
std::string to_yaml(const nlohmann::json& value);

}  // namespace mlk
