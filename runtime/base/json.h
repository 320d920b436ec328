// Parses JSON from outside. No other code of the runtime reads JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mlk::rt {

// No valid input of the runtime has more levels. The library's own functions (dump, ==) recurse once for each
// level.
inline constexpr int most_json_levels = 32;
inline constexpr std::size_t most_json_bytes = std::size_t{16} << 20;

// Throws std::runtime_error with the fault in one line: "<name>: nested deeper than 32".
nlohmann::json parse_json(std::string_view text, const std::string& name);

}  // namespace mlk::rt
