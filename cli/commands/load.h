// An experiment as the commands get it: from a file's path and flags.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/render/render.h"
#include "cli/render/templates.h"

namespace CLI {
class App;
}

namespace mlk {

struct Session;

struct ExperimentOptions {
  std::string file;
  std::vector<std::string> set;
  std::vector<std::string> env;
  std::vector<std::string> allow_files;
};

struct LoadedExperiment {
  Experiment experiment;
  FileContents files;
  Templates templates;
  std::vector<std::string> left_behind;  // files that `run:` names and that do not travel along
};

// FILE, --set and -e, the same in every command that takes an experiment.
void add_experiment_options(CLI::App& command, ExperimentOptions& options);

// Reads the file ("-": standard input) and the folders that its `files:` entries name. Throws Error.
LoadedExperiment load(const ExperimentOptions& options, const Session& session);

}  // namespace mlk
