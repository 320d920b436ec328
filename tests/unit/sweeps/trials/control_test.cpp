#include "sweeps/trials/control.h"

#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/run/change/suspend.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json_path.h"
#include "sweeps/read/fetch.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/trials/control");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::PlayedControllers;
using test::Sweeper;

namespace {

constexpr char controlled_experiment[] =
    "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 2, objective: maximize accuracy, max_failures: 9}\n";
constexpr char clusters_experiment[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 2}\n";

// A sweep of three trials. If it is driven, two trials run and one trial waits. Otherwise it has one Job
// without pods.
struct Controlled {
  Sweeper sweeper;
  std::string sweep;
  kube::Client client{sweeper.cluster.config()};

  explicit Controlled(bool driven) : sweeper(driven ? controlled_experiment : clusters_experiment) {
    if (driven) {
      const PlayedControllers controllers(sweeper.cluster, [](double) { return PlayedControllers::runs_on; });
      sweep = sweeper.drive_until_running({"lr=0.1,0.2,0.3"}, 2);
    } else {
      sweep = sweeper.start({"lr=0.1,0.2,0.3"}).sweep;
    }
  }
  SweepObjects objects() { return fetch_sweep(client, "default", sweep, WithPods::yes); }
  void stop() { stop_sweep(client, "default", objects()); }
  void resume() { resume_sweep(client, "default", objects()); }
  SweepStatus status() { return observe_sweep(objects(), std::chrono::system_clock::now()); }

  // How many Jobs are suspended, and how many are not.
  std::pair<int, int> suspended() {
    int yes = 0, no = 0;
    for (const json& job : objects().jobs) ++(at_path(job, {"spec", "suspend"}) == true ? yes : no);
    return {yes, no};
  }
  // How many owners, of the sweep and of its runs, are marked as stopped.
  int marked() {
    const SweepObjects all = objects();
    int count = kube::annotation_of(all.owner, annotations::stopped).empty() ? 0 : 1;
    for (const auto& [name, run] : runs_of(all))
      count += kube::annotation_of(run.owner, annotations::stopped).empty() ? 0 : 1;
    return count;
  }
  std::vector<RunObjects> runs() {
    std::vector<RunObjects> out;
    for (const auto& [name, run] : runs_of(objects())) out.push_back(run);
    return out;
  }
};

using Change = std::function<void(Controlled&)>;

// For each request of `change` that writes: makes the change `before`, cuts `change` off at this request, and
// repeats `change`. `change` undoes `before`. `check` checks the resulting state. Returns the number of these
// requests.
int cut_off_everywhere(bool driven, const Change& before, const Change& change, const Change& check) {
  constexpr int most_requests = 20;
  Controlled controlled(driven);
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    for (int which = 0; which < most_requests; ++which) {
      INFO("cut ", cut == Sweeper::Cut::before ? "before" : "after", " request ", which);
      before(controlled);
      controlled.sweeper.cut_off_at(which, cut);
      bool was_cut = false;
      try {
        change(controlled);
      } catch (const kube::ApiError& error) {
        CHECK(error.status() == 503);
        was_cut = true;
      }
      controlled.sweeper.let_all_through();
      if (was_cut) change(controlled);
      check(controlled);
      if (was_cut) continue;
      if (cut == Sweeper::Cut::after) return which;
      break;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("a stop that is cut off at any request, and then repeated, suspends all Jobs of the sweep") {
  for (const bool driven : {false, true}) {
    INFO(driven);
    const int requests = cut_off_everywhere(
        driven, [](Controlled& controlled) { controlled.resume(); },
        [](Controlled& controlled) { controlled.stop(); },
        [&](Controlled& controlled) {
          CHECK(controlled.suspended() == std::pair(driven ? 2 : 1, 0));
          CHECK(controlled.marked() == (driven ? 3 : 1));
          CHECK(controlled.status().phase == Phase::stopped);
          CHECK(controlled.status().counts.running == 0);
        });
    CHECK(requests == (driven ? 5 : 2));  // marks, and Jobs
  }
}

TEST_CASE("a resume that is cut off at any request, and then repeated, resumes all Jobs of the sweep") {
  for (const bool driven : {false, true}) {
    INFO(driven);
    const int requests = cut_off_everywhere(
        driven, [](Controlled& controlled) { controlled.stop(); },
        [](Controlled& controlled) { controlled.resume(); },
        [&](Controlled& controlled) {
          CHECK(controlled.suspended() == std::pair(0, driven ? 2 : 1));
          CHECK(controlled.marked() == 0);
          CHECK(controlled.status().phase != Phase::stopped);
        });
    CHECK(requests == (driven ? 5 : 2));
  }
}

TEST_CASE("a sweep counts as stopped if a stop or a resume was cut off in the middle") {
  Controlled controlled(true);
  controlled.sweeper.cut_off_at(2, Sweeper::Cut::before);
  CHECK_THROWS_AS(controlled.stop(), kube::ApiError);
  CHECK(controlled.status().phase == Phase::stopped);  // no driver starts another trial
  controlled.sweeper.let_all_through();
  controlled.stop();
  controlled.sweeper.cut_off_at(2, Sweeper::Cut::after);
  CHECK_THROWS_AS(controlled.resume(), kube::ApiError);
  CHECK(controlled.status().phase == Phase::stopped);
  controlled.sweeper.let_all_through();
}

TEST_CASE("a stop does not change ended trials, and a second stop writes nothing") {
  Controlled controlled(true);
  const std::string job = kube::name_of(controlled.runs().front().jobs.front());
  controlled.sweeper.set_job_status(job, "0");
  controlled.stop();
  CHECK(controlled.suspended() == std::pair(1, 1));
  std::atomic<int> writes{0};
  controlled.sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    writes += asked.method == "GET" ? 0 : 1;
    return std::nullopt;
  });
  controlled.stop();
  CHECK(writes == 0);
}

TEST_CASE("a stop or resume of one trial is completed if it is cut off at any request and then repeated") {
  const auto front = [](Controlled& controlled) { return controlled.runs().front(); };
  const auto stop = [&](Controlled& controlled) {
    stop_trial(controlled.client, "default", front(controlled));
  };
  const auto resume = [&](Controlled& controlled) {
    resume_run(controlled.client, "default", front(controlled));
  };
  CHECK(cut_off_everywhere(true, resume, stop, [&](Controlled& controlled) {
          CHECK(controlled.suspended() == std::pair(1, 1));
          CHECK(controlled.marked() == 1);
          CHECK(goes_on_later(front(controlled).owner));
          CHECK(controlled.status().phase == Phase::running);
          CHECK(controlled.status().counts.stopped == 1);
        }) == 2);
  CHECK(cut_off_everywhere(true, stop, resume, [&](Controlled& controlled) {
          CHECK(controlled.suspended() == std::pair(0, 2));
          CHECK(controlled.marked() == 0);
          CHECK_FALSE(goes_on_later(front(controlled).owner));
        }) == 2);
}

TEST_CASE("resuming a sweep does not resume a trial that early stopping has paused or ended") {
  Controlled controlled(true);
  const std::vector<RunObjects> runs = controlled.runs();
  REQUIRE(runs.size() == 2);
  stop_trial(controlled.client, "default", runs[0], "stopped early by median at step 5");
  mark_paused(controlled.client, "default", runs[1], 10);
  apply_pause(controlled.client, "default", controlled.runs()[1]);
  controlled.stop();
  CHECK(controlled.suspended() == std::pair(2, 0));
  controlled.resume();
  CHECK(controlled.suspended() == std::pair(2, 0));
  CHECK(controlled.marked() == 2);
  for (const RunObjects& run : controlled.runs()) CHECK_FALSE(goes_on_later(run.owner));
}

TEST_CASE("resume_sweep() ends the draining of a sweep") {
  Controlled controlled(true);
  drain_sweep(controlled.client, "default", controlled.sweep);
  CHECK(controlled.status().draining);
  CHECK(controlled.status().phase == Phase::running);
  CHECK(controlled.suspended() == std::pair(0, 2));
  controlled.resume();
  CHECK_FALSE(controlled.status().draining);
}

TEST_CASE("--retry-failed runs at most `parallel` trials at a time") {
  Sweeper sweeper(controlled_experiment);
  std::atomic<bool> mended{false};
  const PlayedControllers controllers(sweeper.cluster, [&](double) { return mended ? 0 : 64; });
  const std::vector<std::string> values{"lr=0.1,0.2,0.3,0.4,0.5,0.6"};
  REQUIRE(sweeper.drive_to_end(values).counts.failed == 6);
  mended = true;
  sweeper.retry_failed = true;
  const auto ended = [&] {
    int count = 0;
    const json jobs = sweeper.cluster.ask("GET", test::jobs_path);
    for (const json& job : jobs["items"]) count += at_path(job, {"status", "conditions"}).empty() ? 0 : 1;
    return count;
  };
  const int before = ended();
  std::atomic<int> started{0}, too_many{0};
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "POST" || !asked.path.ends_with("/jobs")) return std::nullopt;
    const int all = ++started;  // also requests that arrive at the same time
    if (all - (ended() - before) > 2) ++too_many;
    return std::nullopt;
  });
  const SweepStatus status = sweeper.drive_to_end(values);
  sweeper.cluster.before({});
  CHECK(status.counts.succeeded == 6);
  CHECK(status.trials[5].tries == 2);
  CHECK(started == 6);
  CHECK(too_many == 0);
}
