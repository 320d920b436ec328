#include "cli/commands/load.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/commands/left_behind.h"
#include "cli/commands/session.h"
#include "cli/experiment/load.h"
#include "cli/local/local.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t experiment_limit = 1 << 20;
constexpr std::size_t files_limit = 900 * 1024;  // what fits into a ConfigMap beside its own text

// The plain files of one folder: they travel in a ConfigMap, whose keys cannot name folders.
std::map<std::string, std::string> read_folder(const fs::path& folder, const DataEntry& entry) {
  const std::string what = "data '" + entry.name + "': ";
  std::map<std::string, std::string> contents;
  std::size_t total = 0;
  const auto add_file = [&](const fs::directory_entry& file) {
    const std::string name = file.path().filename().string();
    if (name.starts_with(".")) return;
    std::error_code error;
    const bool plain = file.is_regular_file(error);
    const std::uintmax_t size = plain ? file.file_size(error) : 0;
    if (!plain || error) {
      throw Error(ExitCode::usage, what + file.path().string() + " is not a plain file",
                  "files: takes one flat folder; use a volume for more");
    }
    if (total + size > files_limit) {
      throw Error(ExitCode::usage, what + "the files in " + folder.string() + " are more than 900 KiB",
                  "files: is for small data sets; put larger ones on a volume (pvc, nfs)");
    }
    std::string bytes = read_file(file.path(), files_limit);
    total += bytes.size();
    contents.emplace(name, std::move(bytes));
  };
  try {
    visit_folder(folder, add_file);
  } catch (const Error& error) {
    if (error.code() != ExitCode::not_found) throw;
    throw Error(error.code(), what + error.what(), "files: is relative to the experiment file");
  }
  if (contents.empty()) throw Error(ExitCode::usage, what + folder.string() + " is empty");
  return contents;
}

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
  FileContents files;
  for (const DataEntry& entry : experiment.data) {
    if (!entry.files.empty()) files[entry.name] = read_folder(beside / entry.files, entry);
  }
  std::vector<std::string> left_behind = files_left_behind(experiment, files, beside);
  return {std::move(experiment), std::move(files), std::move(templates), std::move(left_behind)};
}

}  // namespace mlk
