// From the text of an experiment file to an Experiment: parse, apply overrides, validate. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"

namespace mlk {

struct Overrides {
  std::vector<std::string> set;  // --set a.b=c, in order
  std::vector<std::string> env;  // -e K=V
  std::string image;             // $MLK_IMAGE; empty: none
  std::string set_from = "--set";  // what messages call the place of `set`
};

// What only the place of the file can tell.
struct Surroundings {
  // What is wrong with a folder of `files:`, as it is written; empty when nothing is.
  std::function<std::string(const std::string& folder)> wrong_with_folder;
  std::string manual = "man mlk-experiment";  // how the manual of the file is read
};

// Throws Error{usage} with all mistakes at once: "file:line:col: what", the line, a caret.
// `job_types`: names valid for `mode:`. A file with `sweep:` describes many experiments and is refused.
Experiment load_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                           const std::vector<std::string>& job_types, const Surroundings& surroundings = {});

// The two halves of load_experiment, for those who make several experiments of one file.

// The file as a tree with the overrides in it, a map; mistakes in these go to `problems`. Throws Error{usage}.
YamlNode parse_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                          const Surroundings& surroundings, Problems& problems);
// Throws Error{usage} for the mistakes in `root` and those that `problems` holds already.
Experiment check_experiment(const YamlNode& root, const std::vector<std::string>& job_types,
                            const Surroundings& surroundings, Problems& problems);

}  // namespace mlk
