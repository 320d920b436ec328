// The files of completions/, compiled into the binary. cmake/embed_completions.cmake generates their table.
#pragma once

#include <string_view>
#include <vector>

namespace mlk {

struct CompletionScript {
  std::string_view shell;
  std::string_view text;
};

const std::vector<CompletionScript>& completion_scripts();

}  // namespace mlk
