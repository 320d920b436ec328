// Finds the user's files that `run:` names but that do not reach the pods, and scripts that exist nowhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/render/render.h"

namespace mlk {

// Returns the words of `run:` that are paths of files, relative to `beside`, the folder of the experiment
// file. Leaves out files that the pods find at these paths. The result is a guess: the image may contain the
// files.
std::vector<std::string> files_left_behind(const Experiment& experiment, const FileContents& files,
                                           const std::filesystem::path& beside);

// Advice about a file that files_left_behind() has found. `has_code`: the experiment has `code:`.
std::string advice_on_left_behind(const std::string& file, bool has_code);

// Advice about the script that `run:` starts, if the script is neither in code that travels nor beside the
// experiment file: "`run:` names trian.py, which is not in the code; did you mean train.py?". Empty if there
// is nothing to advise: the program may be created at run time or come with the image.
std::string advice_on_missing_program(const Experiment& experiment, const FileContents& files,
                                      const std::filesystem::path& beside);

// All advice of the two functions above: about each file left behind, and about the missing script.
std::vector<std::string> advice_on_program(const Experiment& experiment, const FileContents& files,
                                           const std::filesystem::path& beside);

}  // namespace mlk
