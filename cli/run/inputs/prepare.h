// Reads all inputs of a run from an experiment file: the experiment, the user's files that it names, and the
// templates in use.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/experiment/load.h"
#include "cli/render/render.h"
#include "cli/render/templates.h"
#include "cli/run/inputs/user_files.h"

namespace mlk {

struct ExperimentFile {
  std::string name;              // the name in messages
  std::filesystem::path folder;  // of the file: the paths in it are relative to this folder
  std::string text;
};

// `path` "-" is standard input. Throws Error for a file that cannot be read or is over 1 MiB.
ExperimentFile read_experiment_file(const std::string& path);

// The files that an experiment file names, carried to a machine that does not have them.
struct CarriedFiles {
  FileContents files;                        // of `files:` and `code:`
  std::map<std::string, std::string> texts;  // of other files, by their names in the experiment
};

struct PrepareOptions {
  Overrides overrides;
  std::vector<std::string> allow_files;            // --allow-files
  std::string manual;                              // the command that shows the manual of experiment files
  std::optional<CarriedFiles> carried{};           // instead of the files beside the experiment
  std::string registry{};                          // $MLK_REGISTRY: used if the experiment names none
  std::string outputs_claim{};                     // FileContents::outputs_claim
  bool local = false;                              // the run will be on this machine
  std::function<void(const std::string&)> note{};  // long steps, for people
  std::function<bool()> go_on{};                   // returns false if the user wants to stop
  bool all_code_is_layer = false;  // even small code becomes a layer of the image that is built
};

// Reads a text file of at most `limit` bytes that an experiment file names. The file must lie where
// read_user_folder() allows, and the errors are those of read_user_folder().
ExperimentFile read_file_beside(const ExperimentFile& experiment, const PrepareOptions& options,
                                const std::string& named, const std::string& what, std::size_t limit);

// The registry for images of the experiment: "registry.example/team". Empty if neither the experiment nor the
// options name a registry.
std::string registry_of(const PrepareOptions& options, const Experiment& experiment);

struct Prepared {
  Experiment experiment;
  FileContents files;
  std::vector<std::string> warnings;  // about programs and files that the pods will not find
};

// Loads the experiment and the files that it names, and finds files that the pods will not find. Throws
// Error.
Prepared prepare(const ExperimentFile& file, const PrepareOptions& options, const Templates& templates);

// The facts that depend on the place of the file, for load_experiment().
FileContext file_context_of(const ExperimentFile& file, const PrepareOptions& options);

// Reads the folders in the experiment's `files:` and `code:`. `points`: the file of `sweep.points`, relative
// to the experiment file. The code contains neither the experiment file nor the file of points. Throws Error.
FileContents read_files(const ExperimentFile& file, const PrepareOptions& options,
                        const Experiment& experiment, const std::string& points = "");

// Loads the built-in templates. A user's template (~/.config/mlk/templates) replaces the built-in template of
// the same path.
Templates load_templates();

}  // namespace mlk
