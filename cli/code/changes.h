// In which files two archives of code differ. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

// "+new", "-gone" and "changed", in the order of their paths; folders do not count. Throws as read_tar().
std::vector<std::string> changed_paths(std::string_view before, std::string_view after);

}  // namespace mlk::image
