// Loads an experiment from the path and the flags of a command.
#pragma once

#include <string>
#include <vector>

#include "cli/run/inputs/prepare.h"

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

enum class FileIs { required, optional };

// Adds FILE and add_settings().
void add_experiment_options(CLI::App& command, ExperimentOptions& options, FileIs file = FileIs::required);
// Adds --set, -e and --allow-files, which are the same in every command that reads an experiment.
void add_settings(CLI::App& command, ExperimentOptions& options);

// The options for reading an experiment, from the flags and the environment variables.
PrepareOptions prepare_options(const ExperimentOptions& options, Session& session);

// The claim for outputs of experiments that name no volume for them: that of MLK_OUTPUTS_CLAIM, or else, on
// this machine, one of mlk's own; empty: none. Throws Error{usage} if the variable cannot be a claim's name.
std::string usual_outputs_claim(const Session& session);

// Throws Error{usage} if the experiment names no image, since a cluster cannot run a pod without an image.
void require_image(const Experiment& experiment, const std::string& file);

}  // namespace mlk
