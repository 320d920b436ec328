// From the text of an experiment file to an Experiment: parses, applies overrides, validates. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// A value of the file that has a flag of its own, such as --parallel for sweep.parallel.
struct FlagValue {
  std::string flag;  // what messages call its place, where `at` has no source
  std::string path;
  std::string value;  // in YAML
  Place at{};         // where the user has written it
};

struct Overrides {
  std::vector<std::string> set;  // --set a.b=c, in order
  std::vector<std::string> env;  // -e K=V
  std::string image;             // $MLK_IMAGE; empty: none
  std::vector<FlagValue> flags{};
};

// The names that the templates in use give to the values of some keys.
struct TemplateNames {
  std::vector<std::string> job_types;     // of mode
  std::vector<std::string> frameworks{};  // of framework, beside none
};

// What depends on the place of the experiment file.
struct FileContext {
  // The problem of a folder of `files:` or `code:`, given as written; empty if there is none.
  std::function<std::string(const std::string& folder)> wrong_with_folder;
  std::string manual = "man mlk-experiment";  // the command that shows the manual of the file
};

// Throws Error{usage} with all mistakes at once: "file:line:col: what", the line, a caret.
// A file with `sweep:` describes many experiments and is refused.
Experiment load_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                           const TemplateNames& template_names, const FileContext& file_context = {});

// The two halves of load_experiment, for callers that make several experiments of one file.

// The file as a tree, a map, with the overrides applied; mistakes in these go to `problems`. Throws
// Error{usage}.
YamlNode parse_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                          const FileContext& file_context, Problems& problems);
// Throws Error{usage} for the mistakes in `root` and those already in `problems`.
Experiment check_experiment(const YamlNode& root, const TemplateNames& template_names,
                            const FileContext& file_context, Problems& problems);

}  // namespace mlk
