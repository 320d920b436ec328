// mlk sweep: one trial for each point of a space of parameters.

#include <algorithm>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/await_sweep.h"
#include "cli/commands/commands.h"
#include "cli/commands/load.h"
#include "cli/commands/session.h"
#include "cli/run/left_behind.h"
#include "cli/ui/table.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/drive.h"
#include "sweeps/names.h"
#include "sweeps/start.h"

namespace mlk {
namespace {

struct SweepOptions {
  ExperimentOptions experiment;
  std::vector<std::string> parameters;
  std::string objective;
  std::string search;
  int parallel = 0;
  int repeat = 0;
  int trials = 0;
  int max_failures = -1;
  std::string dry_run;
  bool retry_failed = false;
  bool wait = false;
  std::string timeout;
  std::string output = "name";
};

// Flags are values of the file's `sweep:`.
PrepareOptions options_of(const SweepOptions& options, const Session& session) {
  PrepareOptions out = prepare_options(options.experiment, session);
  std::vector<std::string>& set = out.overrides.set;
  if (!options.objective.empty())
    set.push_back("sweep.objective=" + json_text(nlohmann::json(options.objective)));
  if (options.parallel > 0) set.push_back(fmt::format("sweep.parallel={}", options.parallel));
  if (options.repeat > 0) set.push_back(fmt::format("sweep.repeat={}", options.repeat));
  if (options.max_failures >= 0) set.push_back(fmt::format("sweep.max_failures={}", options.max_failures));
  if (options.trials > 0) {
    const std::string search = options.search.empty() ? "random" : options.search;
    set.push_back(fmt::format("sweep.search={{{}: {{trials: {}}}}}", search, options.trials));
  } else if (!options.search.empty()) {
    set.push_back("sweep.search=" + options.search);
  }
  return out;
}

// On one machine more trials than CPUs only slow each other down.
void bound_by_cpus(sweeps::Definition& sweep, Session& session) {
  const int cpus = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (sweep.spec.parallel <= cpus) return;
  session.note(fmt::format("{} trials at a time instead of {}: this machine has {} CPUs", cpus,
                           sweep.spec.parallel, cpus));
  sweep.spec.parallel = cpus;
}

void print_points(const sweeps::Definition& sweep, Session& session) {
  constexpr std::size_t most_first = 5, most_last = 3;
  std::vector<std::string> headers{"TRIAL"}, paths;
  for (const sweeps::Point& point : sweep.points) {
    for (const auto& [path, value] : point) {
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    }
  }
  for (const std::string& path : paths) headers.push_back(path);
  ui::Table table(headers);
  const std::size_t count = sweep.points.size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool gap = count > most_first + most_last + 1 && i == most_first;
    if (gap) {
      table.add({"..."});
      i = count - most_last;
    }
    std::vector<std::string> cells{std::to_string(i)};
    for (const std::string& path : paths) {
      const auto value = sweep.points[i].find(path);
      cells.push_back(value == sweep.points[i].end() ? "" : sweeps::text_of_value(value->second));
    }
    table.add(std::move(cells));
  }
  table.print(session.out, session.out_is_terminal);
}

void print_sweep_handle(const sweeps::Started& started, const SweepOptions& options, Session& session) {
  if (options.output == "json") {
    session.out << json_text({{"sweep", started.sweep},
                              {"trials", started.trials},
                              {"started", started.started},
                              {"retried", started.retried}})
                << '\n';
  } else {
    session.out << started.sweep << '\n';
  }
  session.out.flush();
}

void say_started(const sweeps::Started& started, const sweeps::Definition& sweep, const std::string& driven,
                 Session& session) {
  const std::string all = fmt::format("sweep {} has {} trials", started.sweep, started.trials);
  if (started.started == 0) {
    session.note(all + ": 0 new");
    session.note("look at them with: " + session.command("results " + started.sweep));
    return;
  }
  std::string what = fmt::format("{}: {} new", all, started.started - started.retried);
  if (started.retried > 0) what += fmt::format(", {} started again", started.retried);
  session.note(what);
  if (!driven.empty()) {
    session.note(fmt::format("mlk starts them, {} at a time: {}", sweep.spec.parallel, driven));
    if (const std::string how = sweeps::describe(sweep.spec.stop); !how.empty()) session.note(how);
    return;
  }
  session.note(fmt::format("the cluster runs them by itself, {} at a time: one Job can do them all",
                           sweep.spec.parallel));
  session.note("wait for them with: " + session.command("wait " + started.sweep) +
               "; results: " + session.command("results " + started.sweep));
}

void sweep_command(const SweepOptions& options, Session& session) {
  const auto timeout = duration_option("--timeout", options.timeout);
  if (!options.dry_run.empty() && options.dry_run != "client" && options.dry_run != "server") {
    throw Error(ExitCode::usage, "--dry-run must be client or server, not '" + options.dry_run + "'",
                "for example: --dry-run=server");
  }
  const Templates templates = load_templates();
  const ExperimentFile file = read_experiment_file(options.experiment.file);
  const PrepareOptions prepared = options_of(options, session);
  const Surroundings surroundings = surroundings_of(file, prepared);
  sweeps::Definition sweep = sweeps::define_sweep(file, prepared, options.parameters, templates);
  const bool on_client = options.dry_run == "client";
  if (!session.local() && !on_client) require_image(sweep.first, options.experiment.file);
  if (session.local()) bound_by_cpus(sweep, session);
  for (const std::string& left : sweep.left_behind) session.warn(advice_on_left_behind(printable(left)));
  if (on_client) {
    session.note(fmt::format("sweep {} would have {} trials, {} at a time (client dry run)",
                             sweep.identity.run, sweep.points.size(), sweep.spec.parallel));
    return print_points(sweep, session);
  }
  const std::unique_ptr<kube::Client> client = session.connect();
  const sweeps::StartRequest request{.definition = sweep,
                                     .surroundings = surroundings,
                                     .templates = templates,
                                     .name_space = client->config().name_space,
                                     .version = session.version,
                                     .local = session.local(),
                                     .retry_failed = options.retry_failed,
                                     .dry_run = options.dry_run == "server"};
  const SubmitHooks hooks{.note = [&session](const std::string& text) { session.note(text); },
                          .check_interrupted = [&session] { session.check_interrupted(); }};
  const std::string driven = sweeps::why_driven(request, hooks);
  if (timeout && !options.wait && driven.empty()) throw Error(ExitCode::usage, "--timeout needs --wait");
  const sweeps::Started started = driven.empty() ? sweeps::start_by_cluster(*client, request, hooks)
                                                 : sweeps::prepare_driven(*client, request, hooks);
  print_sweep_handle(started, options, session);
  if (request.dry_run) return;
  say_started(started, sweep, driven, session);
  if (!driven.empty()) {
    session.exit_code = drive_sweep(session, *client, request, timeout);
  } else if (options.wait) {
    session.exit_code = await_sweep(session, *client, started.sweep, timeout);
  }
}

}  // namespace

void add_sweep(CLI::App& root, Session& session) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* command =
      root.add_subcommand("sweep", "Run an experiment for each point of a space of parameters");
  add_experiment_options(*command, options->experiment);
  command
      ->add_option("PARAMETER", options->parameters,
                   "Values of a parameter: lr=0.1,0.01  batch=16..64:16  lr=1e-4..1e-1:log")
      ->type_name("PATH=VALUES");
  command->add_option("--objective", options->objective, "What is best, for example 'maximize accuracy'")
      ->type_name("GOAL METRIC");
  command->add_option("--parallel", options->parallel, "Trials that run at the same time")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--search", options->search, "How points are chosen: grid, random or tpe")
      ->check(CLI::IsMember({"grid", "random", "tpe"}));
  command->add_option("--trials", options->trials, "Try so many points of the space [--search random]")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--repeat", options->repeat, "Trials of each point, each with a seed of its own")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--max-failures", options->max_failures, "Trials that may fail before the sweep ends")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--retry-failed", options->retry_failed, "Start trials that have failed again");
  command
      ->add_flag("--dry-run{client}", options->dry_run,
                 "=client: only show the points; =server: let the cluster check. Nothing is created")
      ->type_name("client|server");
  command->add_flag("--wait", options->wait, "Wait for the end; the exit code says how it ended");
  command->add_option("--timeout", options->timeout, "With --wait: give up waiting after this time")
      ->type_name("DURATION");
  command->add_option("-o,--output", options->output, "name or json")->check(CLI::IsMember({"name", "json"}));
  command->callback([options, &session] { sweep_command(*options, session); });
}

}  // namespace mlk
