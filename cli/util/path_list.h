// Lists of folders in variables: PATH, PYTHONPATH.
#pragma once

#include <string>

namespace mlk {

// "first:rest", without the colon if `first` or `rest` is empty. `rest` alone if its first folder is `first`
// already.
inline std::string path_first(const std::string& first, const std::string& rest) {
  if (first.empty() || rest.empty()) return first + rest;
  return (rest + ":").starts_with(first + ":") ? rest : first + ":" + rest;
}

}  // namespace mlk
