// mlk run: runs a program of the working folder without an experiment file.

#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/args/dry_run.h"
#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/experiment/argument_words.h"
#include "cli/experiment/overrides.h"
#include "cli/provide/load.h"
#include "cli/provide/starter.h"
#include "cli/provide/submit.h"
#include "cli/render/yaml.h"
#include "cli/session/session.h"
#include "cli/util/own_files.h"
#include "cli/util/text.h"
#include "cli/wait/await_run.h"
#include "sweeps/space/names.h"

namespace mlk {
namespace {

using nlohmann::json;

struct RunOptions {
  std::string name, framework, image, cpu, memory, python;
  std::vector<std::string> outputs;
  int workers = 1, gpu = 0;
  ExperimentOptions experiment;
  std::string dry_run;
  std::string output = "name";
  bool detach = false, again = false, insecure = false;
};

// How several workers find each other: --framework, the framework of the launcher in the command, or what the
// user answers.
std::string framework_of(const RunOptions& options, Session& session) {
  std::string found =
      options.framework.empty() ? framework_of_launcher(session.program_words) : options.framework;
  if (options.workers > 1 && found.empty()) {
    if (session.read_answer) {
      session.err << "how do the workers find each other: torch, tensorflow, jax, mpi or none? "
                  << std::flush;
      found = trim(session.read_answer());
      session.check_interrupted();
    }
    if (found.empty())
      throw Error(ExitCode::usage,
                  fmt::format("{} workers need --framework, by which they find each other", options.workers),
                  "torch, tensorflow, jax or mpi; none if the workers need nothing of each other");
  }
  return options.workers > 1 || !options.framework.empty() ? found : "";
}

// The experiment of the flags, without the program.
std::string yaml_of_flags(const RunOptions& options, const std::string& framework) {
  const bool has_framework = !framework.empty() && framework != "none";
  json code = {{"path", "."}};
  if (!options.python.empty()) code["python"] = options.python;
  json workers = {{"count", options.workers}};
  if (!options.cpu.empty()) workers["cpu"] = options.cpu;
  if (!options.memory.empty()) workers["memory"] = options.memory;
  if (options.gpu > 0) workers["gpu"] = options.gpu;
  const std::string name =
      options.name.empty() ? name_of_folder(std::filesystem::current_path()) : options.name;
  std::string out = to_yaml({{"name", name}});
  out += to_yaml({{"mode", has_framework || options.workers > 1 ? "allreduce" : "single"}});
  if (has_framework) out += to_yaml({{"framework", framework}});
  if (!options.image.empty()) out += to_yaml({{"image", options.image}});
  out += to_yaml({{"code", code}});
  if (!options.outputs.empty()) out += to_yaml({{"outputs", options.outputs}});
  return out + to_yaml({{"workers", workers}});
}

// The text of the experiment file that does the same as the command line.
std::string experiment_text(const RunOptions& options, Session& session) {
  if (session.program_words.empty())
    throw Error(ExitCode::usage, "run needs the command of a program after --",
                "for example: mlk run -- python train.py --lr 0.1");
  Problems problems;
  YamlNode root = parse_yaml(yaml_of_flags(options, framework_of(options, session)), "the flags of mlk run");
  set_program(root, session.program_words, problems);
  apply_overrides(root, {.set = options.experiment.set, .env = options.experiment.env, .image = ""},
                  problems);
  problems.throw_if_any();
  const json experiment = sweeps::json_of_experiment(root);
  std::string out;
  for (const YamlEntry& entry : root.entries) out += to_yaml({{entry.key, experiment[entry.key]}});
  return out;
}

void run_command(const RunOptions& options, Session& session) {
  const DryRun dry_run = read_dry_run(options.dry_run);
  const ExperimentFile file{"the experiment of mlk run", "", experiment_text(options, session)};
  if (options.output == "experiment") {
    if (dry_run == DryRun::no)
      throw Error(ExitCode::usage,
                  "-o experiment needs --dry-run, since it prints the experiment and runs nothing");
    (void)load_experiment(file.text, file.name, {}, load_templates().names());
    session.out << sign_of_run << file.text;
    return;
  }
  const Templates templates = load_templates();
  PrepareOptions prepared = prepare_options(
      {.file = "", .set = {}, .env = {}, .allow_files = options.experiment.allow_files}, session);
  prepared.overrides.arguments.clear();  // the words after -- are in the text
  Prepared loaded = prepare(file, prepared, templates);
  for (const std::string& warning : loaded.warnings) session.warn(warning);
  const Provided provided =
      provide({.file = file.name, .prepared = prepared, .dry_run = dry_run, .insecure = options.insecure},
              loaded.experiment, loaded.files, session);
  const Submitted submitted = submit({.experiment = loaded.experiment,
                                      .files = loaded.files,
                                      .templates = templates,
                                      .provided = provided,
                                      .dry_run = dry_run,
                                      .again = options.again,
                                      .output = options.output},
                                     session);
  if (dry_run != DryRun::no || options.detach || !session.out_is_terminal) return;
  AwaitOptions await;
  await.follow = true;
  if (loaded.experiment.start_timeout.count() > 0) await.start_timeout = loaded.experiment.start_timeout;
  session.exit_code = await_runs(session, *provided.client, {submitted.run}, await);
}

}  // namespace

void add_run(CLI::App& root, Session& session) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = root.add_subcommand("run", "Run a program of this folder, without an experiment file");
  command->add_option("--name", options->name, "Name of the experiment; the name of the folder by default")
      ->type_name("NAME");
  command->add_option("--workers", options->workers, "How many workers; 1 by default")
      ->type_name("N")
      ->check(whole_number(1));
  command
      ->add_option("--framework", options->framework,
                   "How workers find each other: torch, tensorflow, jax, mpi or none")
      ->type_name("NAME");
  command->add_option("--gpu", options->gpu, "GPUs of each worker")->type_name("N")->check(whole_number(0));
  command->add_option("--cpu", options->cpu, "CPUs of each worker")->type_name("N");
  command->add_option("--memory", options->memory, "Memory of each worker, for example 8Gi")
      ->type_name("SIZE");
  command->add_option("--image", options->image, "Container image with what the program imports [$MLK_IMAGE]")
      ->type_name("IMAGE");
  command
      ->add_option("--python", options->python,
                   "A file of requirements, whose packages are added to the image")
      ->type_name("FILE");
  command
      ->add_option("--outputs", options->outputs,
                   "A folder whose files stay when the run ends, for example out; may be repeated")
      ->type_name("FOLDER")
      ->take_all()
      ->allow_extra_args(false);
  add_settings(*command, options->experiment);
  add_dry_run(*command, options->dry_run,
              "=client: only render; =server: let the cluster check it. Nothing is created");
  command->add_flag("-d,--detach", options->detach, "Print the name of the run, and do not follow it");
  command->add_flag("--again", options->again, "When this program's newest run has ended, run it once more");
  command->add_flag("--insecure-registry", options->insecure, insecure_registry);
  command
      ->add_option("-o,--output", options->output,
                   "name or json; experiment: with --dry-run, the same as a file")
      ->check(one_of({"name", "json", "experiment"}));
  command->callback([options, &session] { run_command(*options, session); });
}

}  // namespace mlk
