// mlk drive: runs the driver of a detached sweep in the cluster. `mlk sweep --detach` starts this command.
// Users do not type it.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/session/session.h"
#include "cli/wait/await_sweep.h"
#include "sweeps/driver/detach.h"
#include "sweeps/driver/driver_rights.h"
#include "sweeps/objects/watch.h"
#include "sweeps/trials/observe.h"

namespace mlk {
namespace {

struct DriveOptions {
  std::string sweep, key;
};

// Waits without a time limit, since a sweep may be stopped for days. Throws Error{not_found} if the sweep is
// deleted.
void wait_until_resumed(kube::Client& client, const std::string& sweep, Session& session) {
  session.note("the sweep is stopped; waiting for: mlk resume " + sweep);
  sweeps::SweepWatch watch(client, client.config().name_space, sweep);
  while (true) {
    session.check_interrupted();
    if (!watch.wait(interrupt_poll)) continue;
    const std::optional<sweeps::SweepObjects> objects = watch.objects();
    if (!objects) continue;
    const sweeps::SweepStatus status = sweeps::observe_sweep(*objects, std::chrono::system_clock::now());
    if (status.phase != Phase::stopped) return;
  }
}

void drive(const DriveOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  sweeps::require_own_rights(*client, name_space, sweeps::render_driver_rights(Templates(), name_space));
  const sweeps::DriverTask task = sweeps::read_driver_task(*client, name_space, options.sweep, options.key);
  const Templates templates = sweeps::templates_of(task.input);
  const PrepareOptions prepared = sweeps::options_of(task.input, task.files);
  const FileContext file_context = file_context_of(task.input.file, prepared);
  const sweeps::Definition sweep = sweeps::definition_of(task.input, task.files, templates);
  const sweeps::StartRequest request{.definition = sweep,
                                     .file_context = file_context,
                                     .templates = templates,
                                     .name_space = name_space,
                                     .version = session.version,
                                     .local = task.input.local,
                                     .detached = true,
                                     .retry_failed = false,
                                     .dry_run = false};
  const nlohmann::json owner = client->get(kube::resources::config_maps, name_space, options.sweep);
  const bool driven = sweeps::read_record(owner).driven;
  session.note(driven ? "driving " + options.sweep
                      : "collecting what the trials of " + options.sweep + " tell: the cluster runs them");
  while (true) {
    const ExitCode code = driven ? drive_sweep(session, *client, request, {})
                                 : await_sweep(session, *client, options.sweep, {});
    if (code != ExitCode::stopped) return;  // the record of the sweep shows how the sweep has ended
    wait_until_resumed(*client, options.sweep, session);
  }
}

}  // namespace

void add_drive(CLI::App& root, Session& session) {
  auto options = std::make_shared<DriveOptions>();
  CLI::App* command = root.add_subcommand("drive", "")->group("");
  command->add_option("SWEEP", options->sweep, "")->required();
  command->add_option("INPUT", options->key, "")->required();
  command->callback([options, &session] { drive(*options, session); });
}

}  // namespace mlk
