#include "cli/run/change/stop.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/change/first_error.h"
#include "cli/run/change/suspend.h"
#include "cli/run/change/write_record.h"
#include "cli/run/facts/going_on.h"
#include "cli/run/facts/metrics_reader.h"
#include "cli/run/read/find.h"
#include "cli/run/read/log_follower.h"
#include "cli/run/read/watcher.h"
#include "cli/run/state/record.h"
#include "cli/run/state/status.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_changes{100};

Time now() { return std::chrono::system_clock::now(); }

std::string end_in_words(const RunStatus& status) {
  return status.absence == Absence::gone ? status.why : std::string(to_string(status.phase));
}

// Whether mlk's runtime trains without a checkpoint volume, so that a stop loses the training.
bool loses_training(const json& owner) {
  const json experiment = json_or_null(text_of(owner, {"data", "experiment"}));
  return at_path(experiment, {"train"}).is_object() &&
         at_path(experiment, {"checkpoint", "volume"}).is_null();
}

// Collects the last metrics lines that the pods of a run print, since the logs are lost with the pods.
class LastLines {
 public:
  LastLines(kube::Client& client, RunWatcher& watcher)
      : watcher_(watcher), follower_(client, client.config().name_space, {.tail = few, .lossy = true}) {}

  // Call it after every change that the watcher reports.
  void poll() {
    follower_.update(watcher_.objects().pods);
    for (const RunLogLine& line : follower_.take()) {
      if (!line.container.empty()) continue;
      if (std::optional<Metrics> metrics = readers_[line.uid].read(line.text))
        lines_[line.uid] = {std::move(*metrics), line.time};
    }
  }

  // Call it when all pods have ended. Also waits for lines that are still on their way.
  std::map<std::string, MetricsLine> all() {
    const steady_clock::time_point deadline = steady_clock::now() + drain_timeout;
    while (!follower_.finished() && steady_clock::now() < deadline) {
      watcher_.wait_for_change(between_changes);
      poll();
    }
    poll();
    return lines_;
  }

 private:
  static constexpr long few = 50;
  static constexpr std::chrono::seconds drain_timeout{2};
  RunWatcher& watcher_;
  RunLogFollower follower_;
  std::map<std::string, MetricsReader> readers_;  // of the logs of each pod, by uid
  std::map<std::string, MetricsLine> lines_;
};

// One run that is being stopped. Watches the pods while they write their last checkpoint, since results are
// lost with the pods.
class RunStop {
 public:
  RunStop(const ChangeHooks& hooks, kube::Client& client, std::string run, steady_clock::time_point deadline)
      : hooks_(hooks),
        client_(client),
        run_(std::move(run)),
        deadline_(deadline),
        watcher_(client, client.config().name_space, run_),
        lines_(client, watcher_) {}

  // Marks the run as stopped and suspends its Jobs. If the run has ended already, only suspends the Jobs that
  // would continue.
  void begin() {
    wait_for_watches();
    RunObjects objects = watcher_.read_again();
    const RunStatus before = observe(objects, now());
    if (mlk::is_over(before)) {
      over_ = true;
      hooks_.note("run " + run_ + " has ended already: " + end_in_words(before));
      if (const auto problem = suspend_what_goes_on(client_, client_.config().name_space, objects))
        throw Error(ExitCode::failure,
                    "Jobs of run " + run_ + " go on, and could not be suspended: " + *problem);
      return;
    }
    const bool begins = before.phase != Phase::stopped;
    if (begins && loses_training(objects.owner))
      hooks_.warn("no checkpoint volume: resume will start at step 0");
    lines_.poll();
    generations_ = suspend_run(client_, client_.config().name_space, objects);
    if (begins) {
      hooks_.note("stopping " + run_ + ": its processes get SIGTERM, and time for a last checkpoint");
      hooks_.note("the cluster deletes its pods, and with them their logs");
    }
  }

  // Waits for the end of the pods of the run, and writes the record of the run.
  void finish() {
    if (over_) return;
    wait_until_over();
    RunObjects objects = watcher_.read_again();
    check_resumed(objects);
    objects.lines = lines_.all();
    if (const auto problem =
            write_record(client_, client_.config().name_space, objects.owner, observe(objects, now())))
      throw Error(ExitCode::failure,
                  "run " + run_ + " is stopped, but its results could not be recorded: " + *problem);
    hooks_.note("stopped " + run_ + "; let it go on with: " + hooks_.command("resume " + run_));
  }

 private:
  // Waits until the processes of the run have ended.
  void wait_until_over() {
    while (!watcher_.synced() || has_live_pods(watcher_.objects(), now())) {
      lines_.poll();
      if (watcher_.synced()) check_resumed(watcher_.objects());
      const std::string hint =
          "the run is being stopped all the same; see: " + hooks_.command("status " + run_);
      if (hooks_.interrupted())
        throw Error(ExitCode::interrupted, "interrupted while waiting for the pods of " + run_ + " to end",
                    hint);
      if (steady_clock::now() > deadline_)
        throw Error(ExitCode::timed_out, "still waiting for the pods of " + run_ + " to end", hint);
      watcher_.wait_for_change(between_changes);
    }
  }

  void check_resumed(const RunObjects& objects) const {
    if (!was_resumed(objects, generations_)) return;
    throw Error(ExitCode::failure, "run " + run_ + " was resumed before its processes had ended",
                "look at it with: " + hooks_.command("status " + run_));
  }

  // Waits until the watches work, so that mlk sees the ends of the pods. Call it before anything is stopped.
  // Waits until the deadline at most.
  void wait_for_watches() {
    while (!watcher_.synced() && steady_clock::now() < deadline_) {
      if (hooks_.interrupted())
        throw Error(ExitCode::interrupted, "interrupted before run " + run_ + " was stopped");
      watcher_.wait_for_change(between_changes);
    }
  }

  const ChangeHooks& hooks_;
  kube::Client& client_;
  const std::string run_;
  const steady_clock::time_point deadline_;
  RunWatcher watcher_;
  LastLines lines_;
  Generations generations_;
  bool over_ = false;
};

}  // namespace

// Stops at most `most_at_once` runs at a time, since mlk watches each run. mlk suspends all runs of one batch
// before it waits for the first of these runs.
void stop_runs(kube::Client& client, const std::vector<std::string>& runs, std::chrono::seconds timeout,
               const ChangeHooks& hooks) {
  constexpr std::size_t most_at_once = 16;
  FirstError errors(hooks);
  std::size_t begun = 0;
  try {
    while (begun < runs.size()) {
      const steady_clock::time_point deadline = steady_clock::now() + timeout;
      const std::size_t first = begun, end = std::min(first + most_at_once, runs.size());
      std::vector<std::unique_ptr<RunStop>> stops;
      for (std::size_t i = first; i < end; ++i)
        stops.push_back(std::make_unique<RunStop>(hooks, client, runs[i], deadline));
      for (auto& stop : stops) {
        if (!errors.attempt([&] { stop->begin(); })) stop.reset();
        ++begun;
      }
      for (const auto& stop : stops) {
        if (stop) errors.attempt([&] { stop->finish(); });
      }
    }
  } catch (const Error&) {  // interrupted
    const auto next = runs.begin() + static_cast<std::ptrdiff_t>(begun);
    if (runs.size() > 1 && next != runs.end()) hooks.warn("not stopped: " + join({next, runs.end()}, ", "));
    throw;
  }
  errors.rethrow();
}

void resume_stopped_run(kube::Client& client, const std::string& run, const ChangeHooks& hooks) {
  const std::string& name_space = client.config().name_space;
  const RunObjects objects = fetch_run(client, name_space, run);
  const RunStatus status = observe(objects, now());
  if (is_over(status)) {
    throw Error(ExitCode::failure, "run " + run + " has ended: " + end_in_words(status),
                "run it once more with: " + hooks.command("submit --again FILE"));
  }
  if (!is_marked_stopped(objects.owner)) {
    hooks.note("run " + run + " is not stopped: " + std::string(to_string(status.phase)));
    return;
  }
  // Without a checkpoint volume, the training was lost with the pods. The recorded results belong to weights
  // that no longer exist, so mlk removes the record.
  resume_run(client, name_space, objects,
             loses_training(objects.owner) ? record_removal_patch() : json::object());
  hooks.note("resumed " + run);
}

}  // namespace mlk
