// Tests early stopping while a sweep is driven: any driver pauses, resumes and ends trials.
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/run/facts/labels.h"
#include "sweeps/driver/drive.h"
#include "sweeps/read/fetch.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/driver/drive_pauses");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

constexpr char pausing_experiment[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 20, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 1, objective: maximize accuracy, stop: {asha: {min: 10, factor: 2}}}\n";
constexpr char volume[] = "checkpoint: {volume: {pvc: p}}\n";

// Plays pods that train twenty steps. With `waits_at_rung`, a pod waits at step ten until its trial was
// paused and resumed. A suspended pod leaves a checkpoint. Each pod is Pending for the time `pending`.
class PlayedTraining {
 public:
  PlayedTraining(test::FakeCluster& cluster, bool waits_at_rung, std::chrono::milliseconds pending = {})
      : cluster_(cluster), waits_at_rung_(waits_at_rung), pending_(pending), thread_([this] {
          while (!done_) {
            step();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}
  ~PlayedTraining() {
    done_ = true;
    thread_.join();
  }

  // Answers a request for the log of a pod.
  std::optional<local::Answer> answer(const local::Request& asked) {
    const std::size_t end = asked.path.find("-worker-0-abcde/log");
    if (asked.method != "GET" || end == std::string::npos) return std::nullopt;
    const std::size_t begin = asked.path.find("/pods/") + 6;
    const std::lock_guard lock(mutex_);
    const Training& run = runs_[asked.path.substr(begin, end - begin)];
    local::Answer out;
    out.status = 200;
    for (int at = run.from + 5; at <= run.at; at += 5)
      out.body += fmt::format("2026-11-23T10:00:00.0Z mlk step={} accuracy={}\n", at, 1 - run.lr);
    return out;
  }

  // How often each run was started, by its learning rate.
  std::string starts() {
    const std::lock_guard lock(mutex_);
    std::map<double, int> of_rates;
    for (const auto& [name, run] : runs_) of_rates[run.lr] = run.starts;
    std::string out;
    for (const auto& [lr, starts] : of_rates) out += fmt::format("{}:{} ", lr, starts);
    return out;
  }

 private:
  struct Training {
    double lr = 0;
    int from = 0, at = 0, starts = 0;
    std::optional<std::chrono::steady_clock::time_point> pending_since = {};
  };

  void step() {
    // Reads the store directly, since 100 requests a second would need more processor time than the tested
    // code.
    for (const local::Object& job_there : cluster_.store.list("jobs", "default")) {
      const json& job = *job_there;
      const std::string name = job["metadata"]["labels"]["mlk.dev/run"];
      if (job.contains("status") && job["status"].contains("conditions")) continue;
      const local::Object owner_there = cluster_.store.find("configmaps", "default", name);
      if (!owner_there || !owner_there->contains("data")) continue;
      const json& owner = *owner_there;
      const std::lock_guard lock(mutex_);
      Training& run = runs_[name];
      run.lr = json::parse(owner["data"]["experiment"].get<std::string>())["train"]["optimizer"]["lr"];
      json pod = test::pod_of(name, "Pending");
      const std::string pod_name = pod["metadata"]["name"];
      const bool there = cluster_.has("pods", pod_name);
      if (job["spec"].value("suspend", false)) {
        if (there) cluster_.ask("DELETE", test::pods_path + "/" + pod_name, {{"gracePeriodSeconds", 0}});
        continue;
      }
      if (!there) {
        pod["metadata"]["labels"]["mlk.dev/sweep"] = job["metadata"]["labels"]["mlk.dev/sweep"];
        pod["metadata"]["uid"] = fmt::format("{}-{}", pod_name, run.starts);
        cluster_.store.create("pods", pod);
        run.from = run.at;
        ++run.starts;
        run.pending_since = std::chrono::steady_clock::now();
      } else if (run.pending_since) {
        if (std::chrono::steady_clock::now() - *run.pending_since < pending_) continue;
        run.pending_since.reset();
        const json running = {{"running", {{"startedAt", "2026-11-23T10:00:00Z"}}}};
        patch_status(test::pods_path + "/" + pod_name,
                     {{"phase", "Running"}, {"containerStatuses", {{{"name", "main"}, {"state", running}}}}});
      } else if (run.at < 10 || !waits_at_rung_ || run.starts > 1) {
        run.at += 5;
        if (run.at >= 20) end(job, run, pod_name);
      }
    }
  }

  void end(const json& job, const Training& run, const std::string& pod) {
    const json result = {
        {"schema", 1}, {"step", run.at}, {"metrics", {{"accuracy", 1 - run.lr}}}, {"done", true}};
    const json container = {
        {"name", "main"},
        {"state",
         {{"terminated",
           {{"exitCode", 0}, {"message", result.dump()}, {"finishedAt", "2026-11-23T10:00:05Z"}}}}}};
    patch_status(test::pods_path + "/" + pod, {{"phase", "Succeeded"}, {"containerStatuses", {container}}});
    patch_status(test::jobs_path + "/" + job["metadata"]["name"].get<std::string>(),
                 {{"completedIndexes", "0"},
                  {"conditions",
                   {{{"type", "Complete"},
                     {"status", "True"},
                     {"reason", "SuccessPolicy"},
                     {"lastTransitionTime", "2026-11-23T10:00:06Z"}}}}});
  }

  void patch_status(const std::string& path, const json& status) {
    cluster_.ask("PATCH", path + "/status", {{"status", status}}, "application/merge-patch+json");
  }

  test::FakeCluster& cluster_;
  const bool waits_at_rung_;
  const std::chrono::milliseconds pending_;
  std::mutex mutex_;
  std::map<std::string, Training> runs_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

SweepStatus drive_pausing(Sweeper& sweeper, const std::vector<std::string>& words) {
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define(words);
  const StartRequest request = sweeper.request(sweep);
  prepare_driven(client, request, sweeper.hooks());
  return drive(client, request,
               {.submit = sweeper.hooks(),
                .changed = [](const SweepStatus&) {},
                .waiting = [](const std::string&) {},
                .judge_every = std::chrono::milliseconds(50),
                .lease = test::short_lease});
}

void check_outcome(const SweepStatus& status, const std::string& starts) {
  CHECK(status.phase == Phase::succeeded);
  REQUIRE(status.trials.size() == 2);
  const Trial &winner = status.trials[0], &loser = status.trials[1];
  CHECK(winner.state == TrialState::succeeded);
  CHECK(winner.curve.front().first == 5);  // the report from before the pause
  CHECK(winner.curve.back().first >= 10);
  CHECK(winner.objective == doctest::Approx(0.9));
  CHECK(loser.state == TrialState::stopped);
  CHECK(loser.failure == "stopped early by asha at step 10");
  CHECK(loser.objective == doctest::Approx(0.8));
  CHECK(starts == "0.1:2 0.2:1 ");
}

}  // namespace

TEST_CASE("a trial with checkpoints is paused at its rung, and continues there if it is the best") {
  Sweeper sweeper(std::string(pausing_experiment) + volume);
  PlayedTraining training(sweeper.cluster, true);
  sweeper.let_all_through([&](const local::Request& asked) { return training.answer(asked); });
  const SweepStatus status = drive_pausing(sweeper, {"lr=0.1,0.2"});
  check_outcome(status, training.starts());
}

TEST_CASE("a trial that continues after a pause gets the whole start_timeout again") {
  Sweeper sweeper(std::string(pausing_experiment) + volume + "start_timeout: 3s\n");
  PlayedTraining training(sweeper.cluster, true, std::chrono::milliseconds(1500));
  sweeper.let_all_through([&](const local::Request& asked) { return training.answer(asked); });
  const SweepStatus status = drive_pausing(sweeper, {"lr=0.1,0.2"});
  check_outcome(status, training.starts());
}

TEST_CASE("a trial without checkpoints is not paused at its rung") {
  Sweeper sweeper(pausing_experiment);
  PlayedTraining training(sweeper.cluster, false);
  sweeper.let_all_through([&](const local::Request& asked) { return training.answer(asked); });
  const SweepStatus status = drive_pausing(sweeper, {"lr=0.1,0.2"});
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.trials[0].state == TrialState::succeeded);
  CHECK(training.starts() == "0.1:1 0.2:1 ");
}

TEST_CASE("the next driver pauses and continues trials if a driver is cut off at any request") {
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    // To drive the sweep takes a second or two. So only every third request is cut off before the server, and
    // every third request after the server. The requests before the start of the first trial are not cut off,
    // since they are the same in every driven sweep.
    for (int which = cut == Sweeper::Cut::before ? 12 : 13; which < 80; which += 3) {
      INFO("cut ", cut == Sweeper::Cut::before ? "before" : "after", " request ", which);
      Sweeper sweeper(std::string(pausing_experiment) + volume);
      PlayedTraining training(sweeper.cluster, true);
      const auto logs = [&](const local::Request& asked) { return training.answer(asked); };
      sweeper.cut_off_at(which, cut, logs);
      try {
        drive_pausing(sweeper, {"lr=0.1,0.2"});
      } catch (const Error&) {
      }
      const bool was_cut = sweeper.interrupted;
      sweeper.let_all_through(logs);
      const SweepStatus status = drive_pausing(sweeper, {"lr=0.1,0.2"});
      check_outcome(status, training.starts());
      if (!was_cut) {
        CHECK(which > 20);
        break;
      }
      REQUIRE(which < 77);
    }
  }
}
