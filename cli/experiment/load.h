// From the text of an experiment file to an Experiment: parse, apply overrides, validate. Pure.
#pragma once

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

// Throws Error{usage} with all mistakes at once: "file:line:col: what", the line, a caret.
// `job_types`: names valid for `mode:`.
Experiment load_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                           const std::vector<std::string>& job_types);

}  // namespace mlk
