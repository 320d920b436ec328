// From an experiment file to all that a run is made of: the experiment, the user's files that it names, the
// templates in force.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/experiment/load.h"
#include "cli/render/render.h"
#include "cli/render/templates.h"
#include "cli/run/user_files.h"

namespace mlk {

struct ExperimentFile {
  std::string name;              // as messages call it
  std::filesystem::path folder;  // of the file: what it names is relative to that
  std::string text;
};

// `path` "-" is standard input. Throws Error for a file that cannot be read or is over 1 MiB.
ExperimentFile read_experiment_file(const std::string& path);

// What an experiment file names, for a place where those files are not.
struct CarriedFiles {
  FileContents folders;                      // of `files:`
  std::map<std::string, std::string> texts;  // of other files, by the names that the experiment gives them
};

struct PrepareOptions {
  Overrides overrides;
  std::vector<std::string> allow_files;   // --allow-files
  std::string manual;                     // how the manual of the file is read
  std::optional<CarriedFiles> carried{};  // instead of the files beside the experiment
};

// A text file that an experiment file names, of at most `limit` bytes. Where it may lie, and errors: as
// read_user_folder().
ExperimentFile read_file_beside(const ExperimentFile& experiment, const PrepareOptions& options,
                                const std::string& named, const std::string& what, std::size_t limit);

struct Prepared {
  Experiment experiment;
  FileContents files;
  std::vector<std::string> left_behind;  // files that `run:` names and that do not travel along
};

// Throws Error.
Prepared prepare(const ExperimentFile& file, const PrepareOptions& options, const Templates& templates);

// What only the place of the file can tell, for load_experiment().
Surroundings surroundings_of(const ExperimentFile& file, const PrepareOptions& options);

// The contents of the folders that the experiment's `files:` name. Throws Error.
FileContents read_files(const ExperimentFile& file, const PrepareOptions& options,
                        const Experiment& experiment);

// The built-in templates with the user's own (~/.config/mlk/templates) over them.
Templates load_templates();

}  // namespace mlk
