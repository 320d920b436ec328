#include "cli/util/path_part.h"

namespace mlk {

bool is_path_part(std::string_view name) {
  constexpr std::size_t longest = 255;  // limit of most file systems, in bytes
  if (name.empty() || name.size() > longest || name == "." || name == "..") return false;
  return name.find('/') == name.npos && name.find('\0') == name.npos;
}

}  // namespace mlk
