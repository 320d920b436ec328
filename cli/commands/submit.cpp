// mlk submit: creates the objects of a run, and waits for its end on request.

#include "cli/provide/submit.h"

#include <CLI/CLI.hpp>

#include "cli/args/dry_run.h"
#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/provide/load.h"
#include "cli/session/session.h"
#include "cli/wait/await_run.h"

namespace mlk {
namespace {

struct SubmitOptions {
  ExperimentOptions experiment;
  std::string dry_run;
  bool again = false;
  bool wait = false;
  bool follow = false;
  bool insecure = false;
  std::string timeout;
  std::string start_timeout;
  std::string output = "name";
};

void submit_command(const SubmitOptions& options, Session& session) {
  AwaitOptions await;
  await.follow = options.follow;
  await.timeout = duration_option("--timeout", options.timeout);
  await.start_timeout = duration_option("--start-timeout", options.start_timeout);
  if (!options.wait && !options.follow && !(options.timeout.empty() && options.start_timeout.empty())) {
    throw Error(ExitCode::usage, "--timeout and --start-timeout need --wait or --follow");
  }
  const DryRun dry_run = read_dry_run(options.dry_run);
  const Templates templates = load_templates();
  const PrepareOptions prepared = prepare_options(options.experiment, session);
  Prepared loaded = prepare(read_experiment_file(options.experiment.file), prepared, templates);
  if (!await.start_timeout && loaded.experiment.start_timeout.count() > 0)
    await.start_timeout = loaded.experiment.start_timeout;

  for (const std::string& warning : loaded.warnings) session.warn(warning);

  const Provided provided = provide({.file = options.experiment.file,
                                     .prepared = prepared,
                                     .dry_run = dry_run,
                                     .insecure = options.insecure},
                                    loaded.experiment, loaded.files, session);
  const Submitted submitted = submit({.experiment = loaded.experiment,
                                      .files = loaded.files,
                                      .templates = templates,
                                      .provided = provided,
                                      .dry_run = dry_run,
                                      .again = options.again,
                                      .output = options.output},
                                     session);
  if (dry_run == DryRun::no && (options.wait || options.follow))
    session.exit_code = await_runs(session, *provided.client, {submitted.run}, await);
}

}  // namespace

void add_submit(CLI::App& root, Session& session) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command = root.add_subcommand("submit", "Create a run from an experiment file");
  add_experiment_options(*command, options->experiment);
  add_dry_run(*command, options->dry_run,
              "=client: only render; =server: let the cluster check it. Nothing is created");
  command->add_flag("--again", options->again,
                    "When this experiment's newest run has ended, run it once more");
  command->add_flag("--insecure-registry", options->insecure, insecure_registry);
  command->add_flag("--wait", options->wait, "Wait for the end; the exit code says how it ended");
  command->add_flag("--follow", options->follow, "Wait, and print the logs of all ranks");
  command
      ->add_option("--timeout", options->timeout,
                   "With --wait: give up waiting after this time; the run goes on")
      ->type_name("DURATION");
  command
      ->add_option("--start-timeout", options->start_timeout,
                   "With --wait: exit 6 when it has not started after this time")
      ->type_name("DURATION");
  command->add_option("-o,--output", options->output, "name or json")->check(one_of({"name", "json"}));
  command->callback([options, &session] { submit_command(*options, session); });
}

}  // namespace mlk
