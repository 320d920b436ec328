// The first bytes of files that mlk writes for its user, and that lie where the program does. By them mlk
// knows its own files again: they are no code.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlk {

inline constexpr std::string_view sign_of_report =
    "<!doctype html>\n<html lang=\"en\" data-written-by=\"mlk report\">\n";
inline constexpr std::string_view sign_of_best = "# written by mlk best\n";

// Whether a file of this name may begin so, and has to be looked at.
inline bool may_be_own_file(std::string_view name) {
  return name.ends_with(".html") || name.ends_with(".yaml") || name.ends_with(".yml");
}

// `content`: of its beginning at least longest_sign bytes, or all of it.
inline constexpr std::size_t longest_sign = 80;
inline bool is_own_file(std::string_view content) {
  return content.starts_with(sign_of_report) || content.starts_with(sign_of_best);
}

}  // namespace mlk
