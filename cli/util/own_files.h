// The first bytes of files that mlk writes into the folder of the user's program. By these bytes mlk
// recognises its own files, and does not treat them as code of the user.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlk {

inline constexpr std::string_view sign_of_report =
    "<!doctype html>\n<html lang=\"en\" data-written-by=\"mlk report\">\n";
inline constexpr std::string_view sign_of_best = "# written by mlk best\n";

// Whether a file with this name could be one that mlk has written. If so, the caller must read the beginning
// of the file.
inline bool may_be_own_file(std::string_view name) {
  return name.ends_with(".html") || name.ends_with(".yaml") || name.ends_with(".yml");
}

// `content`: at least the first longest_sign bytes of the file, or the whole file.
inline constexpr std::size_t longest_sign = 80;
inline bool is_own_file(std::string_view content) {
  return content.starts_with(sign_of_report) || content.starts_with(sign_of_best);
}

}  // namespace mlk
