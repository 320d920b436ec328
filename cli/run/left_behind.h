// Files of the user's that a program of `run:` names and that do not reach its pods.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/render/render.h"

namespace mlk {

// The words of `run:` that are files below `beside`, the folder of the experiment file, and lie in no mounted
// copy of it. The image may hold them all the same.
std::vector<std::string> files_left_behind(const Experiment& experiment, const FileContents& files,
                                           const std::filesystem::path& beside);

// What to do about one of them.
std::string advice_on_left_behind(const std::string& file);

}  // namespace mlk
