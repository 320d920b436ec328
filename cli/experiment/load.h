// From the text of an experiment file to an Experiment: parse, apply overrides, validate. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/experiment.h"

namespace mlk {

struct Overrides {
  std::vector<std::string> set;  // --set a.b=c, in order
  std::vector<std::string> env;  // -e K=V
  std::string image;             // $MLK_IMAGE; empty: none
};

// What only the place of the file can tell.
struct Surroundings {
  // What is wrong with a folder of `files:`, as it is written; empty when nothing is.
  std::function<std::string(const std::string& folder)> wrong_with_folder;
  std::string manual = "man mlk-experiment";  // how the manual of the file is read
};

// Throws Error{usage} with all mistakes at once: "file:line:col: what", the line, a caret.
// `job_types`: names valid for `mode:`.
Experiment load_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                           const std::vector<std::string>& job_types, const Surroundings& surroundings = {});

}  // namespace mlk
