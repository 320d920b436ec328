// Files in the folder of the user's program that mlk writes, or that only mlk reads. By their first bytes mlk
// recognises such files, and does not treat them as code of the user. So the same program has the same
// identity after the user has written a second experiment file beside it.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlk {

inline constexpr std::string_view sign_of_report =
    "<!doctype html>\n<html lang=\"en\" data-written-by=\"mlk report\">\n";
inline constexpr std::string_view sign_of_best = "# written by mlk best\n";
inline constexpr std::string_view sign_of_run = "# written by mlk run\n";

// Whether a file with this name could be one that mlk has written or that only mlk reads. If so, the caller
// must read the beginning of the file.
inline bool may_be_own_file(std::string_view name) {
  return name.ends_with(".html") || name.ends_with(".yaml") || name.ends_with(".yml");
}

// Whether the text is an experiment file, as far as its keys without indentation tell: name, one of the
// built-in modes, and a program.
inline bool is_experiment_file(std::string_view content) {
  const auto has_line = [&](std::string_view beginning) {
    return content.starts_with(beginning.substr(1)) || content.find(beginning) != content.npos;
  };
  return has_line("\nname: ") && (has_line("\nrun:") || has_line("\ntrain:")) &&
         (has_line("\nmode: single") || has_line("\nmode: ps") || has_line("\nmode: allreduce"));
}

// `content`: at least the first longest_sign bytes of the file, or the whole file.
inline constexpr std::size_t longest_sign = 4096;
inline bool is_own_file(std::string_view content) {
  return content.starts_with(sign_of_report) || content.starts_with(sign_of_best) ||
         content.starts_with(sign_of_run) || is_experiment_file(content);
}

}  // namespace mlk
