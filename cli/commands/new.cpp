// mlk new: writes a starter experiment for the program in a folder.

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/provide/starter.h"
#include "cli/run/inputs/prepare.h"
#include "cli/session/session.h"
#include "cli/util/output_file.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

struct NewOptions {
  std::string file = "experiment.yaml";
  std::string name;
  std::string framework = "none";
};

// Whether this is the name of a Python file that needs no quotes in the experiment file.
bool is_plain_script(const std::string& name) {
  return name.ends_with(".py") && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
         });
}

std::string program_in(const fs::path& folder) {
  std::error_code error;
  for (const char* program : {"train.py", "main.py"}) {
    if (fs::is_regular_file(folder / program, error)) return program;
  }
  std::vector<std::string> others;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (is_plain_script(name) && entry->is_regular_file(unknown)) others.push_back(name);
  }
  return others.size() == 1 ? others.front() : "train.py";
}

void new_experiment(const NewOptions& options, Session& session) {
  const std::vector<std::string> frameworks = load_templates().names().frameworks;
  const bool has_framework = options.framework != "none";
  if (has_framework &&
      std::find(frameworks.begin(), frameworks.end(), options.framework) == frameworks.end()) {
    const std::string near = nearest(options.framework, frameworks);
    throw Error(ExitCode::usage, "there is no framework '" + options.framework + "'",
                near.empty() ? "there are " + join(frameworks, ", ") : "did you mean: --framework " + near);
  }
  const fs::path file = options.file;
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  std::error_code error;
  if (fs::exists(fs::symlink_status(file, error)))
    throw Error(ExitCode::usage, printable(file.string()) + " is there already",
                "name another file: mlk new FILE");
  if (!fs::is_directory(folder, error))
    throw Error(ExitCode::not_found, "there is no folder " + printable(folder.string()));
  const std::string program = program_in(folder);
  const std::string name = options.name.empty() ? name_of_folder(folder) : options.name;
  std::string text = fmt::format("name: {}\nmode: {}\n", name, has_framework ? "allreduce" : "single");
  if (has_framework) text += fmt::format("framework: {}\n", options.framework);
  text += fmt::format(
      "image: python:3               # for a cluster: one that has what the program imports\n"
      "run: [python3, {}]\n"
      "code: .                       # everything beside this file travels along\n"
      "outputs: out                  # what the program writes there stays when the run ends\n"
      "workers: {{count: {}, cpu: 1, memory: 2Gi}}\n"
      "# env: {{WANDB_API_KEY: {{secret: wandb/key}}}}\n"
      "# data: [{{name: data, mount: /data, pvc: datasets}}]\n"
      "# checkpoint: {{volume: {{pvc: checkpoints}}}}   # the program finds it in $MLK_CHECKPOINTS\n",
      program, has_framework ? 2 : 1);
  // Checks the text first, so that the command writes no file that submit would refuse, for example because
  // of a wrong --name.
  (void)load_experiment(text, options.file, {}, load_templates().names());
  write_user_file(file, text);
  session.out << file.string() << '\n';
  const std::string word = shell_word(file.string());
  if (!fs::exists(folder / program, error))
    session.note("write the program " + program + " beside it, or change run: in the file");
  session.note("try it on this machine: mlk submit --local --follow " + word);
  // The command in this note is for a cluster, not for this machine, even if the user has set --local or
  // MLK_LOCAL=1. session.command() would repeat --local.
  const std::string on_cluster = session.global.local ? "the same without --local"
                                 : session.local()    ? "MLK_LOCAL=0 mlk submit --follow " + word
                                                      : session.command("submit --follow " + word);
  session.note("on a cluster: " + on_cluster + "; every key: man mlk-experiment");
}

}  // namespace

void add_new(CLI::App& root, Session& session) {
  auto options = std::make_shared<NewOptions>();
  CLI::App* command = root.add_subcommand("new", "Write a starter experiment for the program in a folder");
  command->alias("init");
  command->add_option("FILE", options->file, "The file to write; experiment.yaml by default");
  command->add_option("--name", options->name, "Name of the experiment; the name of the folder by default")
      ->type_name("NAME");
  command->add_option("--framework", options->framework, "torch, tensorflow, jax, mpi or one of your own")
      ->type_name("NAME");
  command->callback([options, &session] { new_experiment(*options, session); });
}

}  // namespace mlk
