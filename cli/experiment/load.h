// Turns the text of an experiment file into an Experiment: parses, applies overrides, validates. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// A value of a flag, which replaces a value of the file: the value of --parallel replaces sweep.parallel.
struct FlagValue {
  std::string flag;  // messages name this flag if `at` has no source
  std::string path;
  std::string value;  // in YAML
  Place at{};         // where the user has written the value
};

struct Overrides {
  std::vector<std::string> set;  // --set a.b=c, in the order of the command line
  std::vector<std::string> env;  // -e K=V
  std::string image;             // $MLK_IMAGE; empty: none
  std::vector<FlagValue> flags{};
  std::vector<std::string> arguments{};  // words for the program, from the command line of mlk
};

// The names in the templates that mlk has loaded.
struct TemplateNames {
  std::vector<std::string> job_types;     // values of the key `mode`
  std::vector<std::string> frameworks{};  // values of the key `framework`, apart from "none"
};

// Functions and texts that depend on the place of the experiment file.
struct FileContext {
  // Returns the problem of a folder of `files:` or `code:`; empty if there is no problem. `folder`: its path
  // as the file has it.
  std::function<std::string(const std::string& folder)> wrong_with_folder;
  std::string manual = "man mlk-experiment";  // the command that shows the manual of the file
};

// Throws one Error{usage} for all mistakes: "file:line:col: what", the line, a caret. Refuses a file with
// `sweep:`, because such a file describes many experiments.
Experiment load_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                           const TemplateNames& template_names, const FileContext& file_context = {});

// parse_experiment() and check_experiment() are the halves of load_experiment(), for callers that make
// several experiments from one file.

// Returns the file as a tree with the overrides applied; the root is a map. Adds mistakes in the overrides to
// `problems`. Throws Error{usage} if the file is not YAML or not a map.
YamlNode parse_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                          const FileContext& file_context, Problems& problems);
// Throws Error{usage} for the mistakes in `root` and those already in `problems`.
Experiment check_experiment(const YamlNode& root, const TemplateNames& template_names,
                            const FileContext& file_context, Problems& problems);

}  // namespace mlk
