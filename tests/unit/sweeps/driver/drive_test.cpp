#include "sweeps/driver/drive.h"

#include <map>
#include <mutex>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/read/fetch.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/start/quota.h"
#include "sweeps/trials/control.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/driver/drive");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

constexpr char driven_experiment[] =
    "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 2, objective: maximize accuracy, max_failures: 1}\n";

std::size_t runs_of_sweep(Sweeper& sweeper, const std::string& sweep) {
  kube::Client client(sweeper.cluster.config());
  return runs_of(fetch_sweep(client, "default", sweep, WithPods::no)).size();
}

std::vector<Trial> ledger_of(Sweeper& sweeper, const std::string& sweep) {
  kube::Client client(sweeper.cluster.config());
  return read_ledger(sweep, fetch_sweep(client, "default", sweep, WithPods::no).config_maps);
}

}  // namespace

TEST_CASE("a driver starts trials as other trials end, until all trials have ended") {
  Sweeper sweeper(driven_experiment);
  const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  const SweepStatus status = sweeper.drive_to_end({"lr=0.1,0.2,0.3,0.4,0.5"});
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.counts.succeeded == 5);
  REQUIRE(best_of(status) != nullptr);
  CHECK(best_of(status)->point == Point{{"train.optimizer.lr", 0.1}});
  CHECK(runs_of_sweep(sweeper, status.sweep) == 5);
  const std::vector<Trial> ledger = ledger_of(sweeper, status.sweep);
  REQUIRE(ledger.size() == 5);
  CHECK(ledger[4].objective == doctest::Approx(0.5));
}

TEST_CASE("a driven sweep fails and starts no further trial if too many trials have failed") {
  Sweeper sweeper(driven_experiment);
  const test::PlayedControllers controllers(sweeper.cluster, [](double lr) { return lr < 0.25 ? 64 : 0; });
  const SweepStatus status = sweeper.drive_to_end({"lr=0.1,0.2,0.3,0.4,0.5,0.6,0.7"});
  CHECK(status.phase == Phase::failed);
  CHECK(exit_code(status) == ExitCode::run_failed);
  CHECK(status.counts.failed == 2);
  CHECK(status.trials.size() < 7);
  CHECK(status.why.find("2 of ") == 0);
}

// For two of three requests of a driver that write: makes a sweep that has tried the values `tried`, and
// drives this sweep with the values `all`. Cuts the driver off at this request. Then another driver
// continues. Each time costs two drives, so the tests leave out every third state of the sweep: the server
// has executed 0, 3, 6 requests (cut off before) or 2, 5, 8 (cut off after).
void cut_drivers(const std::string& tried, const std::string& all, std::size_t trials, int least_requests) {
  constexpr int most_requests = 60, to_next = 3;
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    for (int which = cut == Sweeper::Cut::before ? 0 : 1; which < most_requests; which += to_next) {
      INFO("cut ", cut == Sweeper::Cut::before ? "before" : "after", " request ", which);
      Sweeper sweeper(driven_experiment);
      const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
      if (!tried.empty()) sweeper.drive_to_end({tried});
      sweeper.cut_off_at(which, cut);
      bool was_cut = false;
      try {
        sweeper.drive_to_end({all});
      } catch (const Error&) {
        was_cut = true;
      }
      was_cut = was_cut || sweeper.interrupted;
      sweeper.let_all_through();
      const SweepStatus status = sweeper.drive_to_end({all});
      CHECK(status.phase == Phase::succeeded);
      CHECK(status.counts.succeeded == static_cast<int>(trials));
      CHECK(runs_of_sweep(sweeper, status.sweep) == trials);
      CHECK(ledger_of(sweeper, status.sweep).size() == trials);
      std::set<int> numbers;
      std::set<std::string> points;
      for (const Trial& trial : status.trials) {
        numbers.insert(trial.number);
        points.insert(trial.hash);
      }
      CHECK(numbers.size() == trials);
      CHECK(*numbers.rbegin() == static_cast<int>(trials) - 1);
      CHECK(points.size() == trials);
      if (!was_cut) {
        CHECK(which > least_requests);  // the driver was cut off until its end
        break;
      }
      REQUIRE(which + to_next < most_requests);
    }
  }
}

TEST_CASE("the next driver continues a sweep if the first driver is cut off at any request") {
  cut_drivers("", "lr=0.1,0.2,0.3", 3, 15);
}

TEST_CASE(
    "the next driver continues an ended sweep with added points if the first is cut off at any request") {
  cut_drivers("lr=0.1", "lr=0.1,0.2", 2, 6);
}

TEST_CASE(
    "points that do not fit into one ConfigMap are written into several, and each point has one trial") {
  Sweeper sweeper(
      "name: x\nmode: allreduce\nrun: echo\nenv: {A: \"${sweep.a}${sweep.b}\"}\nsweep: {parallel: 300}\n");
  // A ninth of the usual limit, since each trial is started.
  static_assert(most_points_bytes < 1024 * 1024 * 9 / 10);  // what a ConfigMap adds is measured below
  sweeper.most_points_bytes = most_points_bytes / 9;
  constexpr std::size_t trials = 28;
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"a=1..28", "b=" + std::string(3900, 'x')});
  const StartRequest request = sweeper.request(sweep);
  prepare_driven(client, request, sweeper.hooks());
  const auto stop_when_all_are_there = [&](const SweepStatus& status) {
    const bool all = status.trials.size() == trials && status.runs.size() == trials;
    sweeper.interrupted = all && std::none_of(status.runs.begin(), status.runs.end(), [](const auto& run) {
                            return run.second.phase == Phase::incomplete;
                          });
  };
  CHECK_THROWS_WITH_AS(drive(client, request,
                             {.submit = sweeper.hooks(),
                              .changed = stop_when_all_are_there,
                              .waiting = [](const std::string&) {},
                              .lease = test::short_lease}),
                       "interrupted", Error);
  const SweepObjects objects = fetch_sweep(client, "default", sweep.identity.run, WithPods::no);
  const std::vector<Batch> batches = batches_of(objects);
  CHECK(batches.size() == 2);
  std::set<int> numbers;
  for (const Batch& batch : batches) {
    for (const TrialLine& trial : batch.trials) CHECK(numbers.insert(trial.number).second);
  }
  CHECK(numbers.size() == trials);
  for (const json& map : objects.config_maps) CHECK(map.dump().size() < sweeper.most_points_bytes * 10 / 9);
}

TEST_CASE(
    "--retry-failed starts each failed trial of a driven sweep only once, even if any request is cut off") {
  for (const Sweeper::Cut cut : {Sweeper::Cut::before, Sweeper::Cut::after}) {
    for (int which = cut == Sweeper::Cut::before ? 0 : 2; which < 40; which += 4) {
      INFO("cut ", cut == Sweeper::Cut::before ? "before" : "after", " request ", which);
      Sweeper sweeper(driven_experiment);
      std::atomic<bool> mended{false};
      const test::PlayedControllers controllers(sweeper.cluster,
                                                [&](double lr) { return lr < 0.15 && !mended ? 64 : 0; });
      const SweepStatus first = sweeper.drive_to_end({"lr=0.1,0.2"});
      REQUIRE(first.counts.failed == 1);
      mended = true;
      sweeper.retry_failed = true;
      sweeper.cut_off_at(which, cut);
      bool was_cut = false;
      try {
        sweeper.drive_to_end({"lr=0.1,0.2"});
      } catch (const Error&) {
        was_cut = true;
      }
      was_cut = was_cut || sweeper.interrupted;
      sweeper.let_all_through();
      const SweepStatus status = sweeper.drive_to_end({"lr=0.1,0.2"});
      CHECK(status.phase == Phase::succeeded);
      CHECK(status.counts.succeeded == 2);
      CHECK(status.trials[0].tries == 2);
      CHECK(status.trials[0].failure == "");
      CHECK(runs_of_sweep(sweeper, status.sweep) == 3);
      if (!was_cut) {
        CHECK(which > 5);
        break;
      }
      REQUIRE(which < 36);
    }
  }
}

TEST_CASE("if the driver must stop, create() completes the runs that it has begun, and begins no others") {
  Sweeper sweeper(driven_experiment);
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=1..600"});
  const StartRequest request = sweeper.request(sweep);
  const SubmitHooks hooks = sweeper.hooks();
  const Started started = prepare_driven(client, request, hooks);
  TrialRuns runs(client, request.name_space, "0", true, sweep, sweeper.file_context, sweeper.templates,
                 hooks);
  std::vector<TrialLine> trials;
  for (const Point& point : sweep.points)
    trials.push_back({static_cast<int>(trials.size()), hash_of(point), point, {}});
  const json owner = fetch_sweep(client, "default", started.sweep, WithPods::no).owner;
  const TrialRuns::Created created = runs.create(trials, owner, [] { return false; });
  CHECK(created.begun > 0);
  CHECK(created.begun < 600);
  CHECK(runs_of_sweep(sweeper, started.sweep) == created.begun);
  const auto lost = []() -> bool { throw Error(ExitCode::cluster, "the Lease is gone"); };
  const std::vector<TrialLine> rest(trials.begin() + static_cast<long>(created.begun), trials.end());
  CHECK_THROWS_WITH(runs.create(rest, owner, lost), "the Lease is gone");
  CHECK(runs_of_sweep(sweeper, started.sweep) < 600);
}

TEST_CASE("a drained sweep starts no trial, and is stopped when no trial runs") {
  Sweeper sweeper(driven_experiment);
  const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=0.1,0.2,0.3"});
  const StartRequest request = sweeper.request(sweep);
  prepare_driven(client, request, sweeper.hooks());
  drain_sweep(client, "default", sweep.identity.run);
  const SweepStatus drained = sweeper.drive_to_end({"lr=0.1,0.2,0.3"});
  CHECK(drained.phase == Phase::stopped);
  CHECK(exit_code(drained) == ExitCode::stopped);
  CHECK(runs_of_sweep(sweeper, drained.sweep) == 0);
  resume_sweep(client, "default", fetch_sweep(client, "default", drained.sweep, WithPods::yes));
  CHECK(sweeper.drive_to_end({"lr=0.1,0.2,0.3"}).counts.succeeded == 3);
}

TEST_CASE("a drained sweep registers no trial when one of its running trials ends") {
  Sweeper sweeper(driven_experiment);
  std::atomic<bool> first_ends = false, drained = false;
  const test::PlayedControllers controllers(sweeper.cluster, [&](double lr) {
    return drained || (first_ends && lr < 0.15) ? 0 : test::PlayedControllers::runs_on;
  });
  kube::Client client(sweeper.cluster.config());
  const std::string sweep = sweeper.define({"lr=0.1,0.2,0.3"}).identity.run;
  const SweepStatus status = sweeper.drive_to_end({"lr=0.1,0.2,0.3"}, "", [&](const SweepStatus& seen) {
    if (seen.counts.running == 2 && !seen.draining) drain_sweep(client, "default", sweep);
    if (seen.draining) first_ends = true;
    if (seen.counts.succeeded == 1) drained = true;
  });
  CHECK(status.phase == Phase::stopped);
  CHECK(status.counts.succeeded == 2);
  CHECK(status.trials.size() == 2);
}

TEST_CASE("a drained sweep does not start a trial for which the quota had no room before") {
  // With an early-stopping rule the next round of a driver begins soon.
  Sweeper sweeper(std::string(driven_experiment)
                      .replace(std::string(driven_experiment).find("max_f"), 5, "stop: median, max_f"));
  std::atomic<bool> is_full = true, ends = false;
  std::atomic<int> looks = 0;
  const test::PlayedControllers controllers(
      sweeper.cluster, [&](double) { return ends ? 0 : test::PlayedControllers::runs_on; });
  const std::vector<std::string> words{"lr=0.1,0.2"};
  const std::string sweep = sweeper.define(words).identity.run;
  const std::string second = trial_run(sweep, hash_of(Point{{"train.optimizer.lr", 0.2}}));
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    const bool of_second =
        asked.method == "POST" && asked.body.find("\"name\":\"" + second + "\"") != std::string::npos;
    if (!of_second || !is_full) return std::nullopt;
    return test::refusal(403, "Forbidden", "configmaps is forbidden: exceeded quota: q");
  });
  kube::Client client(sweeper.cluster.config());
  const SweepStatus status = sweeper.drive_to_end(words, "", [&](const SweepStatus& seen) {
    if (seen.counts.running == 1 && !seen.draining) drain_sweep(client, "default", sweep);
    if (!seen.draining) return;
    is_full = false;
    if (++looks == 5) ends = true;
  });
  CHECK(status.phase == Phase::stopped);
  CHECK(status.counts.succeeded == 1);
  CHECK(runs_of_sweep(sweeper, sweep) == 1);
}

TEST_CASE("a driver ends with exit code 6 and removes its sweep if the server refuses the first trials") {
  Sweeper sweeper(driven_experiment);
  sweeper.cluster.before([](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "POST" || !asked.path.ends_with("/jobs")) return std::nullopt;
    return test::refusal(403, "Forbidden", "jobs.batch is forbidden: exceeded quota: q");
  });
  try {
    sweeper.drive_to_end({"lr=0.1,0.2,0.3"});
    FAIL("it was not refused");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_start);
    CHECK(std::string(error.what()).find("exceeded quota: q") != std::string::npos);
  }
  const std::string sweep = sweeper.define({"lr=0.1,0.2,0.3"}).identity.run;
  CHECK(!sweeper.cluster.has("configmaps", sweep));  // the cluster then deletes the dependent objects
}

TEST_CASE(
    "a trial is started once if the server stores its Job, loses the answer and refuses the repetition") {
  for (const char* said : {"not yet ready to handle request", "exceeded quota: q"}) {
    Sweeper sweeper(driven_experiment);
    const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
    std::mutex mutex;
    std::map<std::string, int> posts;
    std::set<std::string> taken_back;
    sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      const std::lock_guard lock(mutex);
      if (asked.method == "DELETE") taken_back.insert(asked.path);
      if (asked.method != "POST" || !asked.path.ends_with("/jobs")) return std::nullopt;
      const json job = json::parse(asked.body);
      switch (posts[kube::name_of(job)]++) {
        case 0:
          sweeper.cluster.ask("POST", asked.path, job);
          return test::refusal(503, "ServiceUnavailable", "the answer is lost");
        case 1:
          return test::refusal(403, "Forbidden", std::string("jobs.batch is forbidden: ") + said);
        default:
          return std::nullopt;
      }
    });
    const SweepStatus status = sweeper.drive_to_end({"lr=0.1,0.2,0.3"});
    CHECK(status.phase == Phase::succeeded);
    CHECK(status.counts.succeeded == 3);
    CHECK(posts.size() == 3);
    CHECK(taken_back.empty());
  }
}

TEST_CASE("a trial that cannot start is marked as failed, with the reason") {
  Sweeper sweeper(driven_experiment);
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=0.1,0.2"});
  const StartRequest request = sweeper.request(sweep);
  std::thread kubelet([&] {
    json jobs;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      jobs = sweeper.cluster.ask("GET", test::jobs_path)["items"];
    } while (jobs.size() < 2);
    for (const json& job : jobs) {
      json pod = test::pod_of(job["metadata"]["labels"]["mlk.dev/run"], "Pending");
      pod["metadata"]["labels"]["mlk.dev/sweep"] = sweep.identity.run;
      pod["status"]["conditions"] = {{{"type", "PodScheduled"}, {"status", "True"}}};
      pod["status"]["containerStatuses"] = {
          {{"name", "main"},
           {"state", {{"waiting", {{"reason", "InvalidImageName"}, {"message", "no such name"}}}}}}};
      sweeper.cluster.store.create("pods", pod);
    }
  });
  const SweepStatus status = sweeper.drive_to_end({"lr=0.1,0.2"});
  kubelet.join();
  CHECK(status.phase == Phase::failed);
  CHECK(exit_code(status) == ExitCode::run_failed);
  CHECK(status.counts.failed == 2);
  CHECK(status.trials[0].failure.find("it cannot start: worker/0: invalid image name") == 0);
}

TEST_CASE("what_quota_forbids() names a quota that allows no pods or no Jobs") {
  const auto quota = [](const json& spec) { return json{{"metadata", {{"name", "q"}}}, {"spec", spec}}; };
  CHECK(what_quota_forbids({quota({{"hard", {{"pods", "0"}}}})}) == "the quota 'q' allows no pods");
  CHECK(what_quota_forbids({quota({{"hard", {{"count/jobs.batch", "0"}}}})}) ==
        "the quota 'q' allows no Jobs");
  CHECK(what_quota_forbids({quota({{"hard", {{"pods", "1"}, {"secrets", "0"}}}})}) == "");
  CHECK(what_quota_forbids({quota({{"hard", {{"pods", "0"}}}, {"scopes", {"BestEffort"}}})}) == "");
}
