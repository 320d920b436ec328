// The user's files that a program of `run:` names, but that do not reach its pods.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/render/render.h"

namespace mlk {

// The words of `run:` that are files below `beside`, the folder of the experiment file, and not part of a
// mounted copy of it. The image may still contain them.
std::vector<std::string> files_left_behind(const Experiment& experiment, const FileContents& files,
                                           const std::filesystem::path& beside);

// Advice about one of them. has_code: the experiment has `code:`.
std::string advice_on_left_behind(const std::string& file, bool has_code);

}  // namespace mlk
