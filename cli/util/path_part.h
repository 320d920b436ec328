// Names from outside that become files.
#pragma once

#include <string_view>

namespace mlk {

// Whether a name is that of one file in a folder, and leads nowhere else. Pure.
bool is_path_part(std::string_view name);

}  // namespace mlk
