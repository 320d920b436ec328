// What mlk proposes for a program that has no experiment file.
#pragma once

#include <filesystem>
#include <string>

namespace mlk {

// Makes the name of an experiment from the name of the folder: lower-case letters, digits and '-', with a
// letter first; "experiment" if nothing is left.
std::string name_of_folder(const std::filesystem::path& folder);

}  // namespace mlk
