// Finds user's files that a program of `run:` names but that do not reach its pods, and scripts that exist
// nowhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/render/render.h"

namespace mlk {

// Returns the words of `run:` that name files below `beside`, the folder of the experiment file. Leaves out
// files in a mounted copy of this folder. The result is a guess: the image may contain the files.
std::vector<std::string> files_left_behind(const Experiment& experiment, const FileContents& files,
                                           const std::filesystem::path& beside);

// Advice about one such file. has_code: the experiment has `code:`.
std::string advice_on_left_behind(const std::string& file, bool has_code);

// Advice about the script that `run:` starts, if the script is neither in code that travels nor beside the
// experiment file: "`run:` names trian.py, which is not in the code; did you mean train.py?". Empty without
// advice: the program may be created at run time or come with the image.
std::string advice_on_missing_program(const Experiment& experiment, const FileContents& files,
                                      const std::filesystem::path& beside);

// The advice of the functions above.
std::vector<std::string> advice_on_program(const Experiment& experiment, const FileContents& files,
                                           const std::filesystem::path& beside);

}  // namespace mlk
