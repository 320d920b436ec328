// Checks names from outside before they become names of files.
#pragma once

#include <string_view>

namespace mlk {

// Whether the name can only mean a file directly in a folder, and cannot lead to another folder. Pure.
bool is_path_part(std::string_view name);

}  // namespace mlk
