// Names from outside that become files.
#pragma once

#include <string_view>

namespace mlk {

// Whether the name can only mean one file in a folder, and no other place. Pure.
bool is_path_part(std::string_view name);

}  // namespace mlk
