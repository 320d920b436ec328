// mlk submit: creates the objects of a run, and waits for its end on request.

#include <CLI/CLI.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/local/local.h"
#include "cli/provide/images.h"
#include "cli/provide/load.h"
#include "cli/run/change/submission.h"
#include "cli/session/session.h"
#include "cli/util/text.h"
#include "cli/views/submitted.h"
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

void submit(const SubmitOptions& options, Session& session) {
  AwaitOptions await;
  await.follow = options.follow;
  await.timeout = duration_option("--timeout", options.timeout);
  await.start_timeout = duration_option("--start-timeout", options.start_timeout);
  if (!options.wait && !options.follow && !(options.timeout.empty() && options.start_timeout.empty())) {
    throw Error(ExitCode::usage, "--timeout and --start-timeout need --wait or --follow");
  }
  if (!options.dry_run.empty() && options.dry_run != "client" && options.dry_run != "server") {
    throw Error(ExitCode::usage, "--dry-run must be client or server, not '" + options.dry_run + "'",
                "for example: --dry-run=server");
  }
  const bool on_client = options.dry_run == "client";
  const Templates templates = load_templates();
  const PrepareOptions prepared = prepare_options(options.experiment, session);
  Prepared loaded = prepare(read_experiment_file(options.experiment.file), prepared, templates);
  if (!await.start_timeout && loaded.experiment.start_timeout.count() > 0)
    await.start_timeout = loaded.experiment.start_timeout;

  const ImageNeed need{.file = options.experiment.file,
                       .prepared = prepared,
                       .dry_run = !options.dry_run.empty(),
                       .insecure = options.insecure};
  if (!on_client) require_some_image(need, loaded.experiment, session);
  const std::unique_ptr<kube::Client> client = on_client ? nullptr : session.connect();
  std::function<void()> keep_image;
  if (client) keep_image = provide_image(need, loaded.experiment, loaded.files, *client, session);

  const SubmitRequest request{.experiment = loaded.experiment,
                              .files = loaded.files,
                              .templates = templates,
                              .name_space = client ? client->config().name_space : "",
                              .version = session.version,
                              .local = session.local(),
                              .local_gpus = local::gpu_count(),
                              .again = options.again,
                              .dry_run = options.dry_run == "server"};
  Rendered rendered = render_run(request);
  for (const std::string& warning : rendered.warnings) session.warn(warning);
  for (const std::string& warning : loaded.files.warnings) session.warn(warning);
  for (const std::string& warning : loaded.warnings) session.warn(warning);
  if (on_client) {
    session.note("configmap/" + rendered.run + " and " + std::to_string(rendered.objects.size()) +
                 " more objects would be created; --dry-run=server also asks whether run " + rendered.run +
                 " is there already");
    return print_handle(rendered.run, options.output, "", session);
  }

  SubmitHooks hooks = session.submit_hooks();
  hooks.owner_is_there = std::move(keep_image);
  const Submitted submitted = submit_run(*client, request, std::move(rendered), hooks);
  print_handle(submitted.run, options.output, request.name_space, session);
  say_outcome(submitted, session, request);
  session.exit_code = code_of(submitted);
  if (request.dry_run) return;
  if (options.wait || options.follow)
    session.exit_code = await_runs(session, *client, {submitted.run}, await);
}

}  // namespace

void add_submit(CLI::App& root, Session& session) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command = root.add_subcommand("submit", "Create a run from an experiment file");
  add_experiment_options(*command, options->experiment);
  // A flag with an optional value: "--dry-run FILE" must not take FILE for it.
  command
      ->add_flag("--dry-run{client}", options->dry_run,
                 "=client: only render; =server: let the cluster check it. Nothing is created")
      ->type_name("client|server");
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
  command->callback([options, &session] { submit(*options, session); });
}

}  // namespace mlk
