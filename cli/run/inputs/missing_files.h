// The user's files that a program of `run:` names, but that do not reach its pods; and programs that are
// nowhere.
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

// The script with which `run:` begins, if it is in no code that travels, nor beside the experiment file:
// "`run:` names trian.py, which is not in the code; did you mean train.py?". Empty if there is nothing to
// say: for programs that may be made or brought by the image.
std::string advice_on_missing_program(const Experiment& experiment, const FileContents& files,
                                      const std::filesystem::path& beside);

// All of this advice.
std::vector<std::string> advice_on_program(const Experiment& experiment, const FileContents& files,
                                           const std::filesystem::path& beside);

}  // namespace mlk
