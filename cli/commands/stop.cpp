// mlk stop and mlk resume: suspend the Jobs of a run after a last checkpoint, and let them go on.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/await_run.h"
#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/kube/objects.h"
#include "cli/run/facts.h"
#include "cli/run/find.h"
#include "cli/run/labels.h"
#include "cli/run/log_follower.h"
#include "cli/run/record.h"
#include "cli/run/status.h"
#include "cli/run/watcher.h"

namespace mlk {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

struct StopOptions {
  std::string run;
  std::string timeout;
};

Time now() { return std::chrono::system_clock::now(); }

void set_mark(kube::Client& client, const std::string& run, const json& mark) {
  client.patch(kube::resources::config_maps, client.config().name_space, run,
               {{"metadata", {{"annotations", {{labels::stopped, mark}}}}}});
}

void set_suspended(kube::Client& client, const RunObjects& objects, bool suspended) {
  for (const json& job : objects.jobs) {
    if (at_path(job, {"spec", "suspend"}) == suspended) continue;
    client.patch(kube::resources::jobs, client.config().name_space, kube::name_of(job),
                 {{"spec", {{"suspend", suspended}}}});
  }
}

// Whether mlk's runtime trains and has nowhere to keep a checkpoint.
bool loses_training(const json& owner) {
  const json experiment = json::parse(text_of(owner, {"data", "experiment"}), nullptr, false);
  return at_path(experiment, {"train"}).is_object() &&
         at_path(experiment, {"checkpoint", "volume"}).is_null();
}

// The last metrics lines that the pods of a run print: their logs go with them.
class LastLines {
 public:
  LastLines(kube::Client& client, RunWatcher& watcher)
      : watcher_(watcher),
        follower_(client, client.config().name_space, {.tail = few, .since = {}, .role = "", .rank = {}}) {}

  // Call after every change.
  void look() {
    follower_.update(watcher_.objects().pods);
    for (const RunLogLine& line : follower_.take()) {
      if (std::optional<Metrics> metrics = parse_metrics(line.text))
        lines_[line.uid] = {std::move(*metrics), line.time};
    }
  }

  // When all pods have ended: what is still on its way.
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

// Watches while the pods write their last checkpoint, since their results go with them.
void stop(const StopOptions& options, Session& session) {
  const std::chrono::seconds timeout =
      duration_option("--timeout", options.timeout).value_or(std::chrono::seconds(120));
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  const std::string run = session.find_run(*client, options.run);
  RunWatcher watcher(*client, name_space, run);
  const steady_clock::time_point deadline = steady_clock::now() + timeout;
  const auto wait_while = [&](const std::function<bool()>& condition, const std::string& what,
                              const std::string& hint) {
    while (condition()) {
      if (session.interrupted != 0)
        throw Error(ExitCode::interrupted, "interrupted while waiting for " + what, hint);
      if (steady_clock::now() > deadline) throw Error(ExitCode::timed_out, "still waiting for " + what, hint);
      watcher.wait_for_change(interrupt_poll);
    }
  };
  wait_while([&] { return !watcher.synced(); }, "the objects of " + run, "nothing was changed");
  const RunStatus before = observe(watcher.objects(), now());
  if (is_final(before.phase)) {
    session.note("run " + run + " has ended already: " + std::string(to_string(before.phase)));
    std::string problem;
    if (!suspend_what_goes_on(*client, name_space, watcher.objects(), &problem))
      throw Error(ExitCode::failure, "Jobs of run " + run + " go on, and could not be suspended: " + problem);
    return;
  }
  // The mark stands from before the first Job is suspended until after the last one goes on: whichever of
  // stop and resume is cut off, saying it again does the rest.
  if (before.phase != Phase::stopped) {
    if (loses_training(watcher.objects().owner))
      session.warn("no checkpoint volume: resume will start at step 0");
    set_mark(*client, run, format_time(now()));
    session.note("stopping " + run + ": its processes get SIGTERM, and time for a last checkpoint");
    session.note("the cluster deletes its pods, and with them their logs");
  }
  LastLines lines(*client, watcher);
  lines.look();
  set_suspended(*client, watcher.objects(), true);
  const auto is_ending = [&] {
    lines.look();
    return has_live_pods(watcher.objects());
  };
  wait_while(is_ending, "the pods of " + run + " to end",
             "the run is being stopped all the same; see: " + session.command("status " + run));
  RunObjects objects = watcher.read_again();
  objects.lines = lines.all();
  std::string problem;
  if (!write_record(*client, name_space, objects.owner, observe(objects, now()), &problem)) {
    throw Error(ExitCode::failure,
                "run " + run + " is stopped, but its results could not be recorded: " + problem);
  }
  session.note("stopped " + run + "; let it go on with: " + session.command("resume " + run));
}

void resume(const StopOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  const std::string run = session.find_run(*client, options.run);
  const RunObjects objects = fetch_run(*client, name_space, run);
  const RunStatus status = observe(objects, now());
  if (is_final(status.phase)) {
    throw Error(ExitCode::failure, "run " + run + " has ended: " + std::string(to_string(status.phase)),
                "run it once more with: " + session.command("submit --again FILE"));
  }
  if (kube::annotation_of(objects.owner, labels::stopped).empty()) {
    session.note("run " + run + " is not stopped: " + std::string(to_string(status.phase)));
    return;
  }
  set_suspended(*client, objects, false);
  json patch = {{"metadata", {{"annotations", {{labels::stopped, nullptr}}}}}};
  // What it had trained is gone with its pods, and its results are those of weights that are no more.
  if (loses_training(objects.owner)) patch.update(record_removal_patch(), true);
  client->patch(kube::resources::config_maps, name_space, run, patch);
  session.note("resumed " + run);
}

}  // namespace

void add_stop(CLI::App& root, Session& session) {
  auto options = std::make_shared<StopOptions>();
  CLI::App* command = root.add_subcommand("stop", "Stop a run after a last checkpoint; resume lets it go on");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest run")->required();
  command->add_option("--timeout", options->timeout, "How long to wait for its processes to end [2m]")
      ->type_name("DURATION");
  command->callback([options, &session] { stop(*options, session); });
}

void add_resume(CLI::App& root, Session& session) {
  auto options = std::make_shared<StopOptions>();
  CLI::App* command = root.add_subcommand("resume", "Let a stopped run go on from its last checkpoint");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest run")->required();
  command->callback([options, &session] { resume(*options, session); });
}

}  // namespace mlk
