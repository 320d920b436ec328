#include "cli/commands/load.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/commands/left_behind.h"
#include "cli/commands/session.h"
#include "cli/commands/user_files.h"
#include "cli/experiment/load.h"
#include "cli/local/local.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t experiment_limit = 1 << 20;

// So that a folder that is not there is told beside the file's other mistakes.
std::string wrong_with_folder(const fs::path& beside, const std::string& folder) {
  const fs::path path = beside / folder;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return "there is no folder " + path.string() + "; files: is relative to the experiment file";
  if (fs::is_regular_file(status)) return path.string() + " is a file; files: takes a folder";
  return "";
}

// In a checkout, where nothing was installed, by the path of the page.
std::string manual_of_experiments() {
  try {
    const fs::path page = local::own_program().parent_path().parent_path() / "man" / "mlk-experiment.5";
    std::error_code error;
    if (fs::is_regular_file(page, error)) return "man -l " + shell_word(page.string());
  } catch (const Error&) {
    // Then it is where manuals are.
  }
  return "man mlk-experiment";
}

}  // namespace

void add_experiment_options(CLI::App& command, ExperimentOptions& options) {
  command.add_option("FILE", options.file, "Experiment file; - for standard input")->required();
  command.add_option("--set", options.set, "Change a value of the file, for example train.optimizer.lr=0.1")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("-e,--env", options.env, "Set an environment variable of the program")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("--allow-files", options.allow_files,
                  "A file or folder outside of the experiment's own that files: may read")
      ->type_name("PATH")
      ->take_all()
      ->allow_extra_args(false);
}

LoadedExperiment load(const ExperimentOptions& options, const Session& session) {
  Templates templates = load_templates();
  const bool from_stdin = options.file == "-";
  // Not by the name /dev/stdin, which cannot be opened when it is a socket.
  const std::string text = from_stdin ? read_descriptor(STDIN_FILENO, "standard input", experiment_limit)
                                      : read_file(options.file, experiment_limit);
  const Overrides overrides{.set = options.set, .env = options.env, .image = session.env("MLK_IMAGE")};
  const fs::path beside = from_stdin ? fs::path(".") : fs::path(options.file).parent_path();
  const Surroundings surroundings{
      .wrong_with_folder = [&](const std::string& folder) { return wrong_with_folder(beside, folder); },
      .manual = manual_of_experiments()};
  Experiment experiment = load_experiment(text, from_stdin ? "<stdin>" : options.file, overrides,
                                          templates.job_types(), surroundings);
  const UserFiles from{.folder = from_stdin ? fs::path() : beside,
                       .allowed = {options.allow_files.begin(), options.allow_files.end()}};
  FileContents files;
  for (const DataEntry& entry : experiment.data) {
    if (!entry.files.empty())
      files[entry.name] = read_user_folder(from, entry.files, "data '" + entry.name + "'");
  }
  std::vector<std::string> left_behind = files_left_behind(experiment, files, beside);
  return {std::move(experiment), std::move(files), std::move(templates), std::move(left_behind)};
}

}  // namespace mlk
