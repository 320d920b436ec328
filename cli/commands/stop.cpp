// mlk stop: suspends the Jobs of runs, which then write a last checkpoint. mlk resume: lets these runs
// continue.

#include "cli/run/change/stop.h"

#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "cli/run/change/first_error.h"
#include "cli/select/selection.h"
#include "cli/session/session.h"
#include "cli/wait/await_run.h"
#include "sweeps/change/change_sweep.h"

namespace mlk {
namespace {

constexpr const char* usual_example = "phase==Running && age>1h";

struct StopOptions {
  Selection selection;
  bool drain = false;
  std::string timeout;
};

void stop(const StopOptions& options, Session& session) {
  const std::chrono::seconds timeout =
      duration_option("--timeout", options.timeout).value_or(std::chrono::seconds(120));
  require_selection(options.selection, "stop", usual_example);
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::vector<RunAddress> targets = targets_to_change(session, *client, options.selection, "stop");
  for (const RunAddress& target : targets) {
    if (!options.drain || (target.is_sweep && !target.trial)) continue;
    throw Error(ExitCode::usage, name_of(target) + " is no sweep, and --drain is for sweeps alone",
                "stop it with: " + session.command("stop " + name_of(target)));
  }
  const ChangeHooks hooks = session.change_hooks();
  FirstError errors(hooks);
  std::vector<std::string> runs;
  for (const RunAddress& target : targets) {
    if (target.trial) continue;
    if (!target.is_sweep) {
      runs.push_back(target.run);
    } else {
      errors.attempt([&] {
        options.drain ? drain_sweep(*client, target.run, hooks) : stop_sweep(*client, target.run, hooks);
      });
    }
  }
  for (const auto& [sweep, numbers] : trials_by_sweep(targets))
    errors.attempt([&, &sweep = sweep, &numbers = numbers] { stop_trials(*client, sweep, numbers, hooks); });
  errors.attempt([&] { stop_runs(*client, runs, timeout, hooks); });
  errors.rethrow();
}

void resume(const StopOptions& options, Session& session) {
  require_selection(options.selection, "resume", usual_example);
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::vector<RunAddress> targets = targets_to_change(session, *client, options.selection, "resume");
  const ChangeHooks hooks = session.change_hooks();
  FirstError errors(hooks);
  for (const RunAddress& target : targets) {
    if (target.trial) continue;
    errors.attempt([&] {
      target.is_sweep ? resume_sweep(*client, target.run, hooks)
                      : resume_stopped_run(*client, target.run, hooks);
    });
  }
  for (const auto& [sweep, numbers] : trials_by_sweep(targets))
    errors.attempt(
        [&, &sweep = sweep, &numbers = numbers] { resume_trials(*client, sweep, numbers, hooks); });
  errors.rethrow();
}

void add_names(CLI::App& command, StopOptions& options) {
  command.add_option("RUN", options.selection.names, "Runs, or experiments' names for their newest runs");
}

}  // namespace

void add_stop(CLI::App& root, Session& session) {
  auto options = std::make_shared<StopOptions>();
  CLI::App* command =
      root.add_subcommand("stop", "Stop runs after a last checkpoint; resume lets them go on");
  add_names(*command, *options);
  command->add_flag("--drain", options->drain,
                    "Of a sweep: start no more trials, and let those that run end");
  add_where_options(*command, options->selection);
  command->add_option("--timeout", options->timeout, "How long to wait for its processes to end [2m]")
      ->type_name("DURATION");
  command->callback([options, &session] { stop(*options, session); });
}

void add_resume(CLI::App& root, Session& session) {
  auto options = std::make_shared<StopOptions>();
  CLI::App* command = root.add_subcommand("resume", "Let stopped runs go on from their last checkpoints");
  add_names(*command, *options);
  add_where_options(*command, options->selection);
  command->callback([options, &session] { resume(*options, session); });
}

}  // namespace mlk
