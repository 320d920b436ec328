#include "cli/provide/load.h"

#include <filesystem>

#include <CLI/CLI.hpp>

#include "cli/local/local.h"
#include "cli/session/session.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

// The command that shows the manual of experiments. In a checkout, the manual is not installed, so the
// command has the path of the page.
std::string manual_of_experiments() {
  try {
    const fs::path page = local::own_program().parent_path().parent_path() / "man" / "mlk-experiment.5";
    std::error_code error;
    if (fs::is_regular_file(page, error)) return "man -l " + shell_word(page.string());
  } catch (const Error&) {
    // The file of this program is unknown, so the manual counts as installed.
  }
  return "man mlk-experiment";
}

}  // namespace

void add_experiment_options(CLI::App& command, ExperimentOptions& options, FileIs file) {
  command.add_option("FILE", options.file, "Experiment file; - for standard input")
      ->required(file == FileIs::required);
  add_settings(command, options);
}

void add_settings(CLI::App& command, ExperimentOptions& options) {
  const auto add_list = [&](const char* flag, std::vector<std::string>& values, const char* type,
                            const char* description) {
    command.add_option(flag, values, description)->type_name(type)->take_all()->allow_extra_args(false);
  };
  add_list("--set", options.set, "KEY=VALUE",
           "Change a value of the file, for example train.optimizer.lr=0.1");
  add_list("-e,--env", options.env, "NAME=VALUE", "Set an environment variable of the program");
  add_list("--allow-files", options.allow_files, "PATH",
           "files: and code: may name this path, although it is outside of the file's folder");
}

PrepareOptions prepare_options(const ExperimentOptions& options, Session& session) {
  return {.overrides = {.set = options.set,
                        .env = options.env,
                        .image = session.env("MLK_IMAGE"),
                        .arguments = session.program_words},
          .allow_files = options.allow_files,
          .manual = manual_of_experiments(),
          .registry = session.env("MLK_REGISTRY"),
          .outputs_claim = usual_outputs_claim(session),
          .local = session.local(),
          .note = [&session](const std::string& text) { session.note(text); },
          .go_on = [&session] { return session.interrupted == 0; }};
}

std::string usual_outputs_claim(const Session& session) {
  constexpr char variable[] = "MLK_OUTPUTS_CLAIM", of_this_machine[] = "mlk-outputs";
  const std::string claim = session.env(variable);
  if (claim.empty()) return session.local() ? of_this_machine : "";
  constexpr std::size_t longest_name = 253;
  for (const std::string& part : split(claim, '.')) {
    if (!is_label(part) || claim.size() > longest_name)
      throw Error(ExitCode::usage,
                  fmt::format("{}: '{}' is not the name of a claim", variable, printable(claim)));
  }
  return claim;
}

void require_image(const Experiment& experiment, const std::string& file) {
  if (!needs_image(experiment)) return;
  throw Error(ExitCode::usage, file + " names no image, and a cluster has to know what to run",
              std::string("add `image:` to the file (or --set image=..., or export MLK_IMAGE=...)") +
                  (experiment.has_train ? " with an image that holds mlk-runtime" : "") +
                  "; on this machine it runs without: --local");
}

}  // namespace mlk
