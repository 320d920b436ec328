#include "sweeps/drive.h"

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "sweeps/fetch.h"
#include "sweeps/ledger_store.h"
#include "sweeps/trial_runs.h"
#include "tests/unit/sweeps/sweeper.h"

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

constexpr char driven_experiment[] =
    "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 2, objective: maximize accuracy, max_failures: 1}\n";

// Ends every Job as soon as it is there, with a pod that tells a result; as the controllers would.
class PlayedControllers {
 public:
  // `code`: of the trial with that learning rate.
  PlayedControllers(test::FakeCluster& cluster, std::function<int(double lr)> code)
      : cluster_(cluster), code_(std::move(code)), thread_([this] {
          while (!done_) {
            step();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  ~PlayedControllers() {
    done_ = true;
    thread_.join();
  }

 private:
  void step() {
    const json jobs = cluster_.ask("GET", test::jobs_path);
    for (const json& job : jobs["items"]) {
      const std::string name = job["metadata"]["name"], run = job["metadata"]["labels"]["mlk.dev/run"];
      if (job["status"].contains("conditions") || job["spec"].value("suspend", false)) continue;
      const json owner = cluster_.ask("GET", test::config_maps_path + "/" + run);
      if (!owner.contains("data")) continue;
      const json experiment = json::parse(owner["data"]["experiment"].get<std::string>());
      const double lr = experiment["train"]["optimizer"]["lr"];
      const int code = code_(lr);
      json pod = test::pod_of(run, code == 0 ? "Succeeded" : "Failed");
      pod["metadata"]["labels"]["mlk.dev/sweep"] = job["metadata"]["labels"]["mlk.dev/sweep"];
      const json result = {
          {"schema", 1}, {"step", 1}, {"metrics", {{"accuracy", 1 - lr}}}, {"done", code == 0}};
      pod["status"]["containerStatuses"] = {{{"name", "main"},
                                             {"state",
                                              {{"terminated",
                                                {{"exitCode", code},
                                                 {"message", code == 0 ? result.dump() : "broken"},
                                                 {"finishedAt", "2026-11-23T10:00:05Z"}}}}}}};
      if (!cluster_.has("pods", pod["metadata"]["name"])) cluster_.store.create("pods", pod);
      json status = {{"conditions",
                      {{{"type", code == 0 ? "Complete" : "Failed"},
                        {"status", "True"},
                        {"reason", code == 0 ? "SuccessPolicy" : "PodFailurePolicy"},
                        {"lastTransitionTime", "2026-11-23T10:00:06Z"}}}}};
      status[code == 0 ? "completedIndexes" : "failedIndexes"] = "0";
      cluster_.ask("PATCH", test::jobs_path + "/" + name + "/status", {{"status", status}},
                   "application/merge-patch+json");
    }
  }

  test::FakeCluster& cluster_;
  const std::function<int(double lr)> code_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

SweepStatus drive_to_end(Sweeper& sweeper, const std::vector<std::string>& words,
                         const std::string& trials = "") {
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define(words, trials);
  const StartRequest request = sweeper.request(sweep);
  prepare_driven(client, request, sweeper.hooks());
  return drive(client, request,
               {.submit = sweeper.hooks(),
                .changed = [](const SweepStatus&) {},
                .waiting = [](const std::string&) {},
                .judge_every = std::chrono::milliseconds(50)});
}

std::size_t runs_of_sweep(Sweeper& sweeper, const std::string& sweep) {
  kube::Client client(sweeper.cluster.config());
  return runs_of(fetch_sweep(client, "default", sweep, WithPods::no)).size();
}

}  // namespace

TEST_CASE("a driver starts trials as others end, until all have") {
  Sweeper sweeper(driven_experiment);
  const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  const SweepStatus status = drive_to_end(sweeper, {"lr=0.1,0.2,0.3,0.4,0.5"});
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.counts.succeeded == 5);
  REQUIRE(best_of(status) != nullptr);
  CHECK(best_of(status)->point == Point{{"train.optimizer.lr", 0.1}});
  CHECK(runs_of_sweep(sweeper, status.sweep) == 5);
  kube::Client client(sweeper.cluster.config());
  const SweepObjects objects = fetch_sweep(client, "default", status.sweep, WithPods::no);
  const std::vector<Trial> ledger = read_ledger(status.sweep, objects.config_maps);
  REQUIRE(ledger.size() == 5);
  CHECK(ledger[4].objective == doctest::Approx(0.5));
}

TEST_CASE("a sweep of which too many trials fail ends with the first cause") {
  Sweeper sweeper(driven_experiment);
  const PlayedControllers controllers(sweeper.cluster, [](double lr) { return lr < 0.25 ? 64 : 0; });
  const SweepStatus status = drive_to_end(sweeper, {"lr=0.1,0.2,0.3,0.4,0.5,0.6,0.7"});
  CHECK(status.phase == Phase::failed);
  CHECK(exit_code(status) == ExitCode::run_failed);
  CHECK(status.counts.failed == 2);
  CHECK(status.trials.size() < 7);
  CHECK(status.why.find("2 of ") == 0);
}

TEST_CASE(
    "a driver that is cut off at any request is followed by one that goes on, and no trial is there twice") {
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    for (int which = 0; which < 60; which += 1) {
      INFO("cut ", cut == Sweeper::Cut::before ? "before" : "after", " request ", which);
      Sweeper sweeper(driven_experiment);
      const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
      sweeper.cut_off_at(which, cut);
      bool was_cut = false;
      try {
        drive_to_end(sweeper, {"lr=0.1,0.2,0.3"});
      } catch (const Error&) {
        was_cut = true;
      }
      was_cut = was_cut || sweeper.interrupted;
      sweeper.let_all_through();
      const SweepStatus status = drive_to_end(sweeper, {"lr=0.1,0.2,0.3"});
      CHECK(status.phase == Phase::succeeded);
      CHECK(status.counts.all() == 3);
      CHECK(runs_of_sweep(sweeper, status.sweep) == 3);
      std::set<int> numbers;
      for (const Trial& trial : status.trials) numbers.insert(trial.number);
      CHECK(numbers == std::set<int>{0, 1, 2});
      if (!was_cut) {
        CHECK(which > 15);  // every request was cut off once
        break;
      }
      REQUIRE(which < 59);
    }
  }
}
