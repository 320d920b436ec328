// What mlk proposes for a program that has no experiment file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mlk {

// Makes the name of an experiment from the name of the folder: lower-case letters, digits and '-', with a
// letter first; "experiment" if nothing is left.
std::string name_of_folder(const std::filesystem::path& folder);

// The framework whose launcher the words of a command start: torch for torchrun, and for
// `python -m torch.distributed.run`. Empty if the command names no launcher that mlk knows.
std::string framework_of_launcher(const std::vector<std::string>& words);

}  // namespace mlk
