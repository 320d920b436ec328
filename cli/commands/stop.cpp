// mlk stop and mlk resume: suspend the Jobs of runs after a last checkpoint, and resume them.

#include <algorithm>
#include <map>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/wait/await_run.h"
#include "cli/commands/commands.h"
#include "cli/commands/control_sweep.h"
#include "cli/commands/selection.h"
#include "cli/session/session.h"
#include "cli/kube/objects.h"
#include "cli/run/read/find.h"
#include "cli/run/facts/going_on.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/log_follower.h"
#include "cli/run/state/record.h"
#include "cli/run/state/status.h"
#include "cli/run/read/watcher.h"
#include "cli/run/change/write_record.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

struct StopOptions {
  Selection selection;
  bool drain = false;
  std::string timeout;
};

Time now() { return std::chrono::system_clock::now(); }

std::string end_in_words(const RunStatus& status) {
  return status.absence == Absence::gone ? status.why : std::string(to_string(status.phase));
}

void set_mark(kube::Client& client, const std::string& run, const json& mark) {
  client.patch(kube::resources::config_maps, client.config().name_space, run,
               {{"metadata", {{"annotations", {{labels::stopped, mark}}}}}});
}

json set_suspended(kube::Client& client, const json& job, bool suspended) {
  return client.patch(kube::resources::jobs, client.config().name_space, kube::name_of(job),
                      {{"spec", {{"suspend", suspended}}}});
}

std::vector<json> to_change(const RunObjects& objects, bool suspended) {
  std::vector<json> jobs;
  for (const json& job : objects.jobs) {
    if (at_path(job, {"spec", "suspend"}) != suspended) jobs.push_back(job);
  }
  return jobs;
}

// The generations of the Jobs of a run as this command left them, by name: a later generation means that
// another command has changed them.
using Generations = std::map<std::string, std::int64_t>;

// If the first Job is refused, removes the mark again: nothing was stopped then.
Generations suspend_all(kube::Client& client, const RunObjects& objects, bool marked_now) {
  Generations generations;
  for (const json& job : objects.jobs)
    generations[kube::name_of(job)] = count_of(job, {"metadata", "generation"}, 0);
  bool none_yet = true;
  for (const json& job : to_change(objects, true)) {
    try {
      generations[kube::name_of(job)] =
          count_of(set_suspended(client, job, true), {"metadata", "generation"}, 0);
      none_yet = false;
    } catch (const kube::ApiError& error) {
      const bool refused = error.status() >= 400 && error.status() < 500;
      if (marked_now && none_yet && refused) set_mark(client, kube::name_of(objects.owner), nullptr);
      throw;
    }
  }
  return generations;
}

bool was_resumed(const RunObjects& objects, const Generations& generations) {
  return std::any_of(objects.jobs.begin(), objects.jobs.end(), [&](const json& job) {
    const auto ours = generations.find(kube::name_of(job));
    return ours != generations.end() && at_path(job, {"spec", "suspend"}) != true &&
           count_of(job, {"metadata", "generation"}, 0) > ours->second;
  });
}

// Whether mlk's runtime trains and has no place for a checkpoint.
bool loses_training(const json& owner) {
  const json experiment = json_or_null(text_of(owner, {"data", "experiment"}));
  return at_path(experiment, {"train"}).is_object() &&
         at_path(experiment, {"checkpoint", "volume"}).is_null();
}

// The last metrics lines that the pods of a run print: the logs are lost with the pods.
class LastLines {
 public:
  LastLines(kube::Client& client, RunWatcher& watcher)
      : watcher_(watcher), follower_(client, client.config().name_space, {.tail = few, .lossy = true}) {}

  // Call after every change.
  void look() {
    follower_.update(watcher_.objects().pods);
    for (const RunLogLine& line : follower_.take()) {
      if (std::optional<Metrics> metrics = parse_metrics(line.text); metrics && line.container.empty())
        lines_[line.uid] = {std::move(*metrics), line.time};
    }
  }

  // Call when all pods have ended: also waits for the lines on their way.
  std::map<std::string, MetricsLine> all() {
    const steady_clock::time_point deadline = steady_clock::now() + drain_timeout;
    while (!follower_.finished() && steady_clock::now() < deadline) {
      watcher_.wait_for_change(interrupt_poll);
      look();
    }
    look();
    return lines_;
  }

 private:
  static constexpr long few = 50;
  static constexpr std::chrono::seconds drain_timeout{2};
  RunWatcher& watcher_;
  RunLogFollower follower_;
  std::map<std::string, MetricsLine> lines_;
};

// Waits until the processes of the run have ended.
class StopWait {
 public:
  StopWait(Session& session, RunWatcher& watcher, const std::string& run, steady_clock::time_point deadline)
      : session_(session), watcher_(watcher), run_(run), deadline_(deadline) {}

  void until_over(const Generations& generations, LastLines& lines) {
    while (!watcher_.synced() || has_live_pods(watcher_.objects(), std::chrono::system_clock::now())) {
      lines.look();
      if (watcher_.synced()) check_resumed(watcher_.objects(), generations);
      const std::string hint =
          "the run is being stopped all the same; see: " + session_.command("status " + run_);
      if (session_.interrupted != 0)
        throw Error(ExitCode::interrupted, "interrupted while waiting for the pods of " + run_ + " to end",
                    hint);
      if (steady_clock::now() > deadline_)
        throw Error(ExitCode::timed_out, "still waiting for the pods of " + run_ + " to end", hint);
      watcher_.wait_for_change(interrupt_poll);
    }
  }

  void check_resumed(const RunObjects& objects, const Generations& generations) const {
    if (!was_resumed(objects, generations)) return;
    throw Error(ExitCode::failure, "run " + run_ + " was resumed before its processes had ended",
                "look at it with: " + session_.command("status " + run_));
  }

  // Waits until the watches work, before anything is stopped, so that the ends of the pods are seen; not
  // longer than the user wants.
  void for_watches() {
    while (!watcher_.synced() && steady_clock::now() < deadline_) {
      if (session_.interrupted != 0) throw Error(ExitCode::interrupted, "interrupted; nothing was changed");
      watcher_.wait_for_change(interrupt_poll);
    }
  }

 private:
  Session& session_;
  RunWatcher& watcher_;
  const std::string& run_;
  const steady_clock::time_point deadline_;
};

// One run that is being stopped. Watches while the pods write their last checkpoint, since their results are
// lost with them.
class RunStop {
 public:
  RunStop(Session& session, kube::Client& client, std::string run, steady_clock::time_point deadline)
      : session_(session),
        client_(client),
        run_(std::move(run)),
        watcher_(client, client.config().name_space, run_),
        wait_(session, watcher_, run_, deadline),
        lines_(client, watcher_) {}

  // Marks the run and suspends its Jobs.
  void begin() {
    wait_.for_watches();
    RunObjects objects = watcher_.read_again();
    const RunStatus before = observe(objects, now());
    if (mlk::is_over(before)) {
      over_ = true;
      session_.note("run " + run_ + " has ended already: " + end_in_words(before));
      if (const auto problem = suspend_what_goes_on(client_, client_.config().name_space, objects))
        throw Error(ExitCode::failure,
                    "Jobs of run " + run_ + " go on, and could not be suspended: " + *problem);
      return;
    }
    // The mark exists from before the first Job is suspended until after the last one resumes. If a stop or a
    // resume is cut off, repeating it completes it.
    const bool marks = before.phase != Phase::stopped;
    if (marks) {
      if (loses_training(objects.owner)) session_.warn("no checkpoint volume: resume will start at step 0");
      set_mark(client_, run_, format_time(now()));
    }
    lines_.look();
    generations_ = suspend_all(client_, objects, marks);
    if (marks) {
      session_.note("stopping " + run_ + ": its processes get SIGTERM, and time for a last checkpoint");
      session_.note("the cluster deletes its pods, and with them their logs");
    }
  }

  // Waits for the end of its pods, and writes its record.
  void finish() {
    if (over_) return;
    wait_.until_over(generations_, lines_);
    RunObjects objects = watcher_.read_again();
    wait_.check_resumed(objects, generations_);
    objects.lines = lines_.all();
    if (const auto problem =
            write_record(client_, client_.config().name_space, objects.owner, observe(objects, now())))
      throw Error(ExitCode::failure,
                  "run " + run_ + " is stopped, but its results could not be recorded: " + *problem);
    session_.note("stopped " + run_ + "; let it go on with: " + session_.command("resume " + run_));
  }

 private:
  Session& session_;
  kube::Client& client_;
  const std::string run_;
  RunWatcher watcher_;
  StopWait wait_;
  LastLines lines_;
  Generations generations_;
  bool over_ = false;
};

// As many at a time as can be watched: all of these get their signal before the first is waited for.
void stop_runs(Session& session, kube::Client& client, const std::vector<std::string>& runs,
               std::chrono::seconds timeout) {
  constexpr std::size_t most_at_once = 16;
  for (std::size_t first = 0; first < runs.size(); first += most_at_once) {
    const steady_clock::time_point deadline = steady_clock::now() + timeout;
    std::vector<std::unique_ptr<RunStop>> stops;
    for (std::size_t i = first; i < std::min(first + most_at_once, runs.size()); ++i)
      stops.push_back(std::make_unique<RunStop>(session, client, runs[i], deadline));
    for (const auto& stop : stops) stop->begin();
    for (const auto& stop : stops) stop->finish();
  }
}

// The runs that the command line means: those that are named, or all that match --where. Empty if there is
// nothing to do. All names are looked up first, so that one that is none leaves every run unchanged.
std::vector<RunAddress> targets_of(const StopOptions& options, const std::string& doing, Session& session,
                                   kube::Client& client) {
  if (!options.selection.where.empty()) {
    std::vector<RunAddress> targets = select_targets(session, client, options.selection);
    if (!may_do(session, doing, targets, options.selection)) return {};
    keep_those_that_still_match(session, client, options.selection, targets);
    return targets;
  }
  if (options.selection.yes) throw Error(ExitCode::usage, "--yes needs --where");
  if (options.selection.names.empty())
    throw Error(ExitCode::usage, "a run is required",
                "name it, or say which: mlk " + doing + " --where 'phase==Running && age>1h'");
  std::vector<RunAddress> targets;
  for (const std::string& name : options.selection.names) add_once(targets, session.find_run(client, name));
  return targets;
}

void stop(const StopOptions& options, Session& session) {
  const std::chrono::seconds timeout =
      duration_option("--timeout", options.timeout).value_or(std::chrono::seconds(120));
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::vector<RunAddress> targets = targets_of(options, "stop", session, *client);
  for (const RunAddress& target : targets) {
    if (!options.drain || (target.is_sweep && !target.trial)) continue;
    throw Error(ExitCode::usage, name_of(target) + " is no sweep, and --drain is for sweeps alone",
                "stop it with: " + session.command("stop " + name_of(target)));
  }
  std::vector<std::string> runs;
  for (const RunAddress& target : targets) {
    if (target.trial) continue;
    if (!target.is_sweep) {
      runs.push_back(target.run);
    } else if (options.drain) {
      drain_sweep(*client, target.run, session);
    } else {
      stop_sweep(*client, target.run, session);
    }
  }
  for (const auto& [sweep, numbers] : trials_by_sweep(targets)) stop_trials(*client, sweep, numbers, session);
  stop_runs(session, *client, runs, timeout);
}

void resume_run(kube::Client& client, const std::string& run, Session& session) {
  const std::string& name_space = client.config().name_space;
  const RunObjects objects = fetch_run(client, name_space, run);
  const RunStatus status = observe(objects, now());
  if (mlk::is_over(status)) {
    throw Error(ExitCode::failure, "run " + run + " has ended: " + end_in_words(status),
                "run it once more with: " + session.command("submit --again FILE"));
  }
  if (kube::annotation_of(objects.owner, labels::stopped).empty()) {
    session.note("run " + run + " is not stopped: " + std::string(to_string(status.phase)));
    return;
  }
  for (const json& job : to_change(objects, false)) set_suspended(client, job, false);
  json patch = {{"metadata", {{"annotations", {{labels::stopped, nullptr}}}}}};
  // Its training was lost with its pods, and its results are of weights that no longer exist.
  if (loses_training(objects.owner)) patch.update(record_removal_patch(), true);
  client.patch(kube::resources::config_maps, name_space, run, patch);
  session.note("resumed " + run);
}

void resume(const StopOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::vector<RunAddress> targets = targets_of(options, "resume", session, *client);
  for (const RunAddress& target : targets) {
    if (target.trial) continue;
    if (target.is_sweep) {
      resume_sweep(*client, target.run, session);
    } else {
      resume_run(*client, target.run, session);
    }
  }
  for (const auto& [sweep, numbers] : trials_by_sweep(targets))
    resume_trials(*client, sweep, numbers, session);
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
