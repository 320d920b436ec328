// Compares the files of two archives of code. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

// The paths of files that differ, as "+new", "-gone" and "changed", in the order of the paths. Folders are
// ignored. Throws as read_tar().
std::vector<std::string> changed_paths(std::string_view before, std::string_view after);

}  // namespace mlk::image
