// mlk sweep: runs one trial for each point of a space of parameters.

#include <algorithm>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/args/dry_run.h"
#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/provide/detach.h"
#include "cli/provide/images.h"
#include "cli/provide/load.h"
#include "cli/render/outputs.h"
#include "cli/session/session.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "cli/views/other_code.h"
#include "cli/views/sweep_preview.h"
#include "cli/wait/await_sweep.h"
#include "sweeps/search/search.h"
#include "sweeps/start/continue_sweep.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/start/start.h"

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
  double trial_minutes = 0;
  bool same = false;
  bool retry_failed = false;
  bool wait = false;
  bool insecure = false;
  DetachOptions detach;
  std::string timeout;
  std::string output = "name";
};

// The values below `sweep:` that --search and --trials set. Without --search, the file decides the kind of
// search if its kind has a number of trials; otherwise the kind is `random`. If the kind stays as in the
// file, the other options in the file, such as the seed, also stay.
std::vector<FlagValue> search_flags(const SweepOptions& options, const ExperimentFile& file,
                                    const PrepareOptions& prepared) {
  Problems problems;
  const YamlNode root =
      parse_experiment(file.text, file.name, prepared.overrides, file_context_of(file, prepared), problems);
  const YamlNode* sweep = root.find("sweep");
  const YamlNode* search = sweep == nullptr ? nullptr : sweep->find("search");
  const bool is_map = search != nullptr && search->kind == YamlNode::Kind::map && search->entries.size() == 1;
  const std::string in_file = is_map ? search->entries.front().key : search == nullptr ? "" : search->text;
  const sweeps::SearchKind* of_file = sweeps::find_search(in_file);
  const bool counts = of_file != nullptr && of_file->has_trials;
  const std::string kind = !options.search.empty() ? options.search : counts ? in_file : "random";
  const bool has_options =
      is_map && kind == in_file && search->entries.front().value.kind == YamlNode::Kind::map;
  std::vector<FlagValue> flags;
  if (!has_options) {
    flags.push_back({options.search.empty() ? "--trials" : "--search", "sweep.search",
                     options.trials == 0 ? kind : fmt::format("{{{}: {{}}}}", kind)});
  }
  if (options.trials > 0)
    flags.push_back({"--trials", "sweep.search." + kind + ".trials", std::to_string(options.trials)});
  return flags;
}

// The options for reading the experiment. They contain the flags of this command as values below `sweep:`.
PrepareOptions options_of(const SweepOptions& options, const ExperimentFile& file, Session& session) {
  PrepareOptions out = prepare_options(options.experiment, session);
  std::vector<FlagValue> flags;
  const auto add = [&flags](const char* flag, const char* key, const std::string& value) {
    flags.push_back({flag, std::string("sweep.") + key, value});
  };
  if (!options.objective.empty())
    add("--objective", "objective", json_text(nlohmann::json(options.objective)));
  if (options.parallel > 0) add("--parallel", "parallel", std::to_string(options.parallel));
  if (options.repeat > 0) add("--repeat", "repeat", std::to_string(options.repeat));
  if (options.max_failures >= 0) add("--max-failures", "max_failures", std::to_string(options.max_failures));
  if (options.trials > 0 || !options.search.empty()) {
    for (FlagValue& each : search_flags(options, file, out)) flags.push_back(std::move(each));
  }
  out.overrides.flags = std::move(flags);
  return out;
}

// Limits the parallel trials to the CPUs of this machine, since more trials would only slow each other down.
void bound_by_cpus(sweeps::Definition& sweep, Session& session) {
  const int cpus = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (sweep.spec.parallel <= cpus) return;
  session.note(fmt::format("{} trials at a time instead of {}: this machine has {} CPUs", cpus,
                           sweep.spec.parallel, cpus));
  sweep.spec.parallel = cpus;
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

void print_started(const sweeps::Started& started, const sweeps::Definition& sweep, const std::string& driven,
                   const SweepOptions& options, Session& session) {
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
  const std::string jobs =
      started.jobs == 1 ? "one Job can do them all" : fmt::format("in {} Jobs", started.jobs);
  session.note(fmt::format("the cluster runs them by itself, {} at a time: {}", sweep.spec.parallel, jobs));
  if (options.detach.detach) return;
  const std::string vanish = sweeps::why_results_may_vanish(started.trials);
  if (!vanish.empty() && !options.wait)
    session.warn(vanish + ": " + session.command("wait " + started.sweep) +
                 " stores results as trials end, and --detach does so in the cluster");
  session.note("wait for them with: " + session.command("wait " + started.sweep) +
               "; results: " + session.command("results " + started.sweep));
}

void go_on_with_same(kube::Client& client, sweeps::Definition& sweep, Session& session) {
  const auto same = sweeps::go_on_with_same(client, client.config().name_space, sweep);
  if (!same)
    return session.note("--same: there is no such sweep of " + sweep.name + " yet; this is a new one");
  if (!same->other) return;
  session.note(fmt::format(
      "--same: {} goes on with this image, program and data: its {} trials stay as they are{}", same->sweep,
      same->trials, same->candidates > 1 ? fmt::format("; it is the newest of {}", same->candidates) : ""));
}

void check_flags(const SweepOptions& options, DryRun dry_run, bool has_timeout) {
  const bool detach = options.detach.detach;
  if (detach && (options.wait || has_timeout))
    throw Error(ExitCode::usage, "--detach returns at once, and excludes --wait and --timeout",
                "wait for it with: mlk wait SWEEP");
  if (!detach && (options.detach.create_rbac || !options.detach.image.empty()))
    throw Error(ExitCode::usage, "--create-rbac and --driver-image need --detach");
  if (options.trial_minutes > 0 && dry_run == DryRun::no)
    throw Error(ExitCode::usage, "--trial-minutes needs --dry-run, which tells what the sweep takes");
  if (options.same && dry_run == DryRun::client)
    throw Error(ExitCode::usage,
                "--same asks the cluster for the earlier sweep, but --dry-run=client sends no requests",
                "try --dry-run=server");
}

void sweep_command(const SweepOptions& options, Session& session) {
  const auto timeout = duration_option("--timeout", options.timeout);
  const DryRun dry_run = read_dry_run(options.dry_run);
  check_flags(options, dry_run, timeout.has_value());
  const Templates templates = load_templates();
  const ExperimentFile file = read_experiment_file(options.experiment.file);
  const PrepareOptions prepared = options_of(options, file, session);
  const FileContext file_context = file_context_of(file, prepared);
  sweeps::Definition sweep = sweeps::define_sweep(file, prepared, options.parameters, templates);
  if (session.local()) bound_by_cpus(sweep, session);
  if (const std::string why = sweeps::why_fewer_points(sweep); !why.empty()) session.warn(why);
  for (const std::string& warning : sweep.files.warnings) session.warn(warning);
  for (const std::string& warning : sweep.warnings) session.warn(warning);
  if (const std::string advice = outputs_advice(sweep.first.effective, sweep.files.outputs_claim);
      !advice.empty())
    session.note(advice);
  const Provided provided = provide({.file = options.experiment.file,
                                     .prepared = prepared,
                                     .dry_run = dry_run,
                                     .insecure = options.insecure},
                                    sweep.first, sweep.files, session);
  kube::Client* const client = provided.client.get();
  const sweeps::StartRequest request{.definition = sweep,
                                     .file_context = file_context,
                                     .templates = templates,
                                     .name_space = client ? client->config().name_space : "",
                                     .version = session.version,
                                     .local = session.local(),
                                     .detached = options.detach.detach,
                                     .retry_failed = options.retry_failed,
                                     .dry_run = dry_run == DryRun::server};
  const PreviewOptions preview{.trial_minutes = options.trial_minutes > 0
                                                    ? std::optional<double>(options.trial_minutes)
                                                    : std::nullopt,
                               .as_json = options.output == "json"};
  if (!client) return print_preview(session, nullptr, request, preview);
  if (options.same) {
    go_on_with_same(*client, sweep, session);
  } else {
    report_other_code(*client, sweep, session);
  }
  SubmitHooks hooks = session.submit_hooks(*client);
  hooks.owner_is_there = provided.keep_image;
  std::string driven = sweeps::why_driven(request, hooks);
  if (timeout && !options.wait && driven.empty()) throw Error(ExitCode::usage, "--timeout needs --wait");
  std::optional<Driver> driver;
  if (options.detach.detach)
    driver = prepare_driver(session, *client, request, {file, prepared, options.parameters}, options.detach);
  const sweeps::Started started = driven.empty() ? sweeps::start_by_cluster(*client, request, hooks)
                                                 : sweeps::prepare_driven(*client, request, hooks);
  if (request.dry_run) return print_preview(session, client, request, preview);
  if (driven.empty()) driven = started.driven;
  print_sweep_handle(started, options, session);
  print_started(started, sweep, driven, options, session);
  if (driver) {
    detach_sweep(session, *client, *driver, started, hooks);
  } else if (!driven.empty()) {
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
  command->add_option("--parallel", options->parallel, "How many trials run at the same time")
      ->type_name("N")
      ->check(whole_number(1));
  command
      ->add_option("--search", options->search,
                   "How points are chosen: " + join_or(sweeps::names_for_command()))
      ->check(one_of(sweeps::names_for_command()));
  command
      ->add_option("--trials", options->trials,
                   "Try so many points of the space, by the file's search or random")
      ->type_name("N")
      ->check(whole_number(1));
  command->add_option("--repeat", options->repeat, "Trials of each point, each with a seed of its own")
      ->type_name("N")
      ->check(whole_number(1));
  command
      ->add_option("--max-failures", options->max_failures,
                   "How many trials may fail; the sweep ends when more have failed")
      ->type_name("N")
      ->check(whole_number());
  command->add_flag("--retry-failed", options->retry_failed, "Start trials that have failed again");
  add_dry_run(
      *command, options->dry_run,
      "=client: show the points and what they take; =server: ask the cluster, too. Nothing is created");
  command
      ->add_option("--trial-minutes", options->trial_minutes,
                   "With --dry-run: how long a trial takes [as those that have ended]")
      ->type_name("M")
      ->check(number_above_zero());
  command->add_flag("--same", options->same,
                    "Go on with the newest sweep that differs in image, program or data alone");
  command->add_flag("--insecure-registry", options->insecure, insecure_registry);
  command->add_flag("--wait", options->wait, "Wait for the end; the exit code says how it ended");
  add_detach_options(*command, options->detach);
  command->add_option("--timeout", options->timeout, "With --wait: give up waiting after this time")
      ->type_name("DURATION");
  command->add_option("-o,--output", options->output, "name or json")->check(one_of({"name", "json"}));
  command->callback([options, &session] { sweep_command(*options, session); });
}

}  // namespace mlk
