// Compares the files of two archives of code. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

// The files that differ, in the order of their paths: "+PATH" is only in `after`, "-PATH" is only in
// `before`, and "PATH" has changed. Folders are ignored. Throws as read_tar().
std::vector<std::string> changed_paths(std::string_view before, std::string_view after);

}  // namespace mlk::image
