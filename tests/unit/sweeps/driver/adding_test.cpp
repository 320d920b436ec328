// Tests trials that are added while other trials run, and by several commands at once.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "sweeps/driver/drive.h"
#include "sweeps/read/fetch.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/trials/control.h"
#include "sweeps/trials/sweep_row.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/local/samples.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/driver/adding");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

std::string growing_experiment(int parallel) {
  return "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\nsweep: "
         "{parallel: " +
         std::to_string(parallel) + ", objective: maximize accuracy}\n";
}

SweepObjects objects_on(Sweeper& sweeper, const std::string& sweep) {
  kube::Client client(sweeper.cluster.config());
  return fetch_sweep(client, "default", sweep, WithPods::yes);
}

// Starts the sweep, and drives it if it needs a driver; `changed` as in DriveHooks.
SweepStatus start_and_drive(Sweeper& sweeper, const std::vector<std::string>& words,
                            const std::function<void(const SweepStatus&)>& changed) {
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define(words);
  const StartRequest request = sweeper.request(sweep);
  const Started started = start_by_cluster(client, request, sweeper.hooks());
  CHECK(started.driven != "");
  return drive(client, request,
               {.submit = sweeper.hooks(),
                .changed = changed,
                .waiting = [](const std::string&) {},
                .lease = test::short_lease});
}

}  // namespace

TEST_CASE("a point that is added to a running sweep starts when a place becomes free") {
  Sweeper sweeper(growing_experiment(2));
  const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  const Started first = sweeper.start({"lr=0.1,0.2"});
  const std::string job = first.sweep + "-trials-0";
  const auto runs = [&] { return runs_of(objects_on(sweeper, first.sweep)).size(); };
  int ended = 0;
  const SweepStatus status =
      start_and_drive(sweeper, {"lr=0.1,0.2,0.3,0.4,0.5"}, [&](const SweepStatus& seen) {
        if (ended == 0) {
          CHECK(runs() == 0);  // both places are taken
          sweeper.set_job_status(job, "0", "", false);
          ended = 1;
        } else if (ended == 1 && seen.counts.succeeded == 4) {
          sweeper.set_job_status(job, "0-1");  // the three other trials ran in the place of index 0
          ended = 2;
        }
      });
  CHECK(ended == 2);
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.counts.succeeded == 5);
  CHECK(status.record.driven);
  CHECK(runs() == 3);
  const std::map<int, Point> trials = sweeper.trials(first.sweep);
  REQUIRE(trials.size() == 5);
  CHECK(trials.at(1) == Point{{"train.optimizer.lr", 0.2}});
  CHECK(trials.at(4) == Point{{"train.optimizer.lr", 0.5}});
  kube::Client client(sweeper.cluster.config());
  CHECK(run_of_trial(client, "default", first.sweep, 1) == "");
  CHECK(run_of_trial(client, "default", first.sweep, 4) == trial_run(first.sweep, hash_of(trials.at(4))));
}

TEST_CASE("a driver continues if another command adds points just before one of the driver's requests") {
  constexpr int most_requests = 40;
  for (int which = 0; which < most_requests; ++which) {
    INFO("added before request ", which, " of the first driver");
    Sweeper sweeper(growing_experiment(1));
    const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
    kube::Client client(sweeper.cluster.config());
    const Definition larger = sweeper.define({"lr=0.1,0.2"});
    std::atomic<bool> adding{false}, released{false};
    std::atomic<int> count{0};
    bool added = false;
    const Definition first = sweeper.define({"lr=0.1"});
    prepare_driven(client, sweeper.request(first), sweeper.hooks());
    sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      const bool writes =
          asked.method != "GET" && asked.path.find("/authorization.k8s.io/") == std::string::npos;
      const bool is_drivers = asked.path.find("/status") == std::string::npos;
      // A driver that has released its Lease has decided that its work is done. After that it only stores
      // the results of pods that it saw late.
      if (adding || added || released || !writes || !is_drivers) return std::nullopt;
      released = asked.body.find(R"("holderIdentity":"")") != std::string::npos;
      if (count++ != which) return std::nullopt;
      adding = added = true;
      kube::Client other(sweeper.cluster.config());
      const Started started = prepare_driven(other, sweeper.request(larger), sweeper.hooks());
      CHECK(started.trials == 2);
      adding = false;
      return std::nullopt;
    });
    const SweepStatus left = drive(client, sweeper.request(first),
                                   {.submit = sweeper.hooks(),
                                    .changed = [](const SweepStatus&) {},
                                    .waiting = [](const std::string&) {},
                                    .lease = test::short_lease});
    sweeper.cluster.before({});
    CHECK(left.counts.succeeded == 1);
    CHECK((left.phase == Phase::succeeded) == !added);
    if (!added) {
      CHECK(which > 6);  // the points were added once before each request
      break;
    }
    CHECK(read_record(objects_on(sweeper, first.identity.run).owner).trials == 2);
    const SweepStatus whole = sweeper.drive_to_end({"lr=0.1,0.2"});
    CHECK(whole.phase == Phase::succeeded);
    CHECK(whole.counts.succeeded == 2);
    REQUIRE(which < most_requests - 1);
  }
}

TEST_CASE("a sweep that needs a driver for added points still needs it when all Jobs have ended") {
  Sweeper sweeper(growing_experiment(2));
  const Started first = sweeper.start({"lr=0.1,0.2"});
  const Started more = sweeper.start({"lr=0.1,0.2,0.3"});
  CHECK(more.driven != "");
  CHECK(more.started == 1);
  CHECK(more.trials == 3);
  sweeper.set_job_status(first.sweep + "-trials-0", "0-1");
  const SweepObjects objects = objects_on(sweeper, first.sweep);
  const SweepStatus status = observe_sweep(objects, {});
  CHECK(status.phase == Phase::running);  // one trial of the sweep waits for a driver
  CHECK(status.counts.waiting == 1);
  CHECK(status.why.find("no trial runs; its mlk sweep command starts them") == 0);
  CHECK(row_of_sweep({objects.owner, objects.jobs, {}, {}, {}}).phase == Phase::running);
  CHECK(sweeper.start({"lr=0.1,0.2,0.3"}).driven != "");
  CHECK(sweeper.batches(first.sweep).size() == 1);
}

TEST_CASE("a sweep needs no driver for added points if `parallel` leaves a place for each of them") {
  Sweeper sweeper(growing_experiment(5));
  const Started first = sweeper.start({"lr=0.1,0.2"});
  const Started more = sweeper.start({"lr=0.1,0.2,0.3,0.4,0.6"});
  CHECK(more.driven == "");
  CHECK(more.started == 3);
  CHECK(more.jobs == 1);
  CHECK(places_taken(sweeper.batches(first.sweep)) == 5);
  CHECK(sweeper.start({"lr=0.1,0.2,0.3,0.4,0.6,0.7"}).driven != "");
}

TEST_CASE(
    "stop_sweep() suspends the sweep's own Jobs and the Jobs of its runs, and resume_sweep() resumes all of "
    "them") {
  Sweeper sweeper(growing_experiment(2));
  const Started first = sweeper.start({"lr=0.1,0.2"});
  sweeper.set_job_status(first.sweep + "-trials-0", "0", "", false);
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=0.1,0.2,0.3"});
  const StartRequest request = sweeper.request(sweep);
  REQUIRE(start_by_cluster(client, request, sweeper.hooks()).driven == "");  // a place was free
  const Definition larger = sweeper.define({"lr=0.1,0.2,0.3,0.4"});
  REQUIRE(start_by_cluster(client, sweeper.request(larger), sweeper.hooks()).driven != "");
  const SubmitHooks hooks = sweeper.hooks();
  TrialRuns runs(client, request.name_space, "0", true, larger, sweeper.file_context, sweeper.templates,
                 hooks);
  SweepObjects objects = objects_on(sweeper, first.sweep);
  runs.create({{3, hash_of(larger.points.back()), larger.points.back(), {}}}, objects.owner,
              [] { return true; });
  const auto all_suspended = [&](bool suspended) {
    const std::vector<json> jobs = objects_on(sweeper, first.sweep).jobs;
    CHECK(jobs.size() == 3);
    return std::all_of(jobs.begin(), jobs.end(),
                       [&](const json& job) { return job["spec"].value("suspend", false) == suspended; });
  };
  stop_sweep(client, "default", objects_on(sweeper, first.sweep));
  CHECK(all_suspended(true));
  resume_sweep(client, "default", objects_on(sweeper, first.sweep));
  CHECK(all_suspended(false));
}

TEST_CASE("each point has one trial if any request is cut off while points are added") {
  // Cuts off the requests that add the points, and the first requests of the driver; drive_test.cpp cuts off
  // the later requests. Skips the request that acquires the Lease, since the next driver must wait if its
  // answer is lost.
  constexpr int writes = 9, lease = 5;
  for (int which = 0; which < writes; ++which) {
    if (which == lease) continue;
    INFO("cut after request ", which);
    Sweeper sweeper(growing_experiment(2));
    const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
    const Started first = sweeper.start({"lr=0.1,0.2"});
    std::atomic<bool> ended{false};
    const auto end_job = [&](const SweepStatus&) {
      if (!ended.exchange(true)) sweeper.set_job_status(first.sweep + "-trials-0", "0-1");
    };
    sweeper.cut_off_at(which, Sweeper::Cut::after);
    CHECK_THROWS_AS(start_and_drive(sweeper, {"lr=0.1,0.2,0.3,0.4"}, end_job), Error);
    sweeper.let_all_through();
    const SweepStatus status = start_and_drive(sweeper, {"lr=0.1,0.2,0.3,0.4"}, end_job);
    CHECK(status.counts.succeeded == 4);
    CHECK(status.counts.all() == 4);
    const std::map<int, Point> trials = sweeper.trials(first.sweep);
    CHECK(trials.size() == 4);
    CHECK(trials.rbegin()->first == 3);
    CHECK(runs_of(objects_on(sweeper, first.sweep)).size() == 2);
  }
}

TEST_CASE("each point has one trial if two commands start a sweep at the same time with different points") {
  for (int which = 0; which < 20; ++which) {
    INFO("the other starts before request ", which);
    Sweeper sweeper(growing_experiment(8));
    std::atomic<bool> others_turn{false};
    std::atomic<int> count{0};
    bool had_turn = false;
    Started other;
    sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      const bool writes =
          asked.method != "GET" && asked.path.find("/authorization.k8s.io/") == std::string::npos;
      if (others_turn || !writes || count++ != which) return std::nullopt;
      others_turn = had_turn = true;
      other = sweeper.start({"lr=0.3,0.4"});
      others_turn = false;
      return std::nullopt;
    });
    const Started mine = sweeper.start({"lr=0.1,0.2,0.3"});
    sweeper.cluster.before({});
    if (!had_turn) {
      CHECK(which > 4);
      break;
    }
    CHECK(other.sweep == mine.sweep);
    CHECK(std::max(mine.trials, other.trials) == 4);
    CHECK(mine.driven + other.driven == "");
    const std::map<int, Point> trials = sweeper.trials(mine.sweep);
    CHECK(trials.size() == 4);
    CHECK(trials.rbegin()->first == 3);
    CHECK(read_record(objects_on(sweeper, mine.sweep).owner).trials == 4);
    REQUIRE(which < 19);
  }
}

TEST_CASE("the parallelisms of several Jobs add up to `parallel` even if a start is cut off and repeated") {
  constexpr char words[] = "lr=0.1,0.2,0.3,0.4,0.5,0.6";
  for (int which = 0; which < 20; ++which) {
    INFO("cut after request ", which);
    Sweeper sweeper(growing_experiment(5));
    sweeper.most_points_bytes = 300;  // enough for two trials
    sweeper.cut_off_at(which, Sweeper::Cut::after);
    bool was_cut = false;
    try {
      sweeper.start({words});
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::interrupted);
      was_cut = true;
    }
    sweeper.let_all_through();
    const Started started = sweeper.start({words});
    CHECK(started.trials == 6);
    CHECK(started.driven == "");
    CHECK(sweeper.trials(started.sweep).size() == 6);
    int parallel = 0;
    const std::vector<Batch> batches = sweeper.batches(started.sweep);
    CHECK(batches.size() == 3);
    for (const Batch& batch : batches) parallel += batch.object->at("spec").at("parallelism").get<int>();
    CHECK(parallel == 5);
    if (!was_cut) {
      CHECK(which > 6);  // every request was cut off once
      break;
    }
    REQUIRE(which < 19);
  }
}

TEST_CASE("a sweep needs a driver if it has more Jobs than trials that may run at a time") {
  Sweeper sweeper(growing_experiment(2));
  sweeper.most_points_bytes = 300;
  const Definition sweep = sweeper.define({"lr=0.1,0.2,0.3,0.4,0.5,0.6"});
  CHECK(why_driven(sweeper.request(sweep), sweeper.hooks()) ==
        "their points need 3 Jobs, and only 2 trials may run at a time");
  const Started first = sweeper.start({"lr=0.1"});
  sweeper.set_job_status(first.sweep + "-trials-0", "0");
  CHECK(sweeper.start({"lr=0.1,0.2,0.3,0.4,0.5,0.6"}).driven.find("their points need 3 Jobs") == 0);
}

TEST_CASE("no objects of added points are left if the server refuses one of these objects") {
  Sweeper sweeper(growing_experiment(5));
  sweeper.most_points_bytes = 300;
  const Started first = sweeper.start({"lr=0.1"});
  sweeper.set_job_status(first.sweep + "-trials-0", "0");
  const auto there = [&] { return sweeper.cluster.names("configmaps") + sweeper.cluster.names("jobs"); };
  const std::string before = there();
  int jobs = 0;
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "POST" || asked.path != test::jobs_path || ++jobs < 2) return std::nullopt;
    return test::refusal(403, "Forbidden", "exceeded quota: few");
  });
  CHECK_THROWS_WITH_AS(sweeper.start({"lr=0.1,0.2,0.3,0.4"}), doctest::Contains("exceeded quota"), Error);
  CHECK(jobs == 2);
  CHECK(there() == before);
  sweeper.cluster.before({});
  CHECK(read_record(objects_on(sweeper, first.sweep).owner).trials == 1);
  CHECK(sweeper.start({"lr=0.1,0.2,0.3,0.4"}).started == 3);
}

TEST_CASE("no objects of a driven sweep are left if the server refuses the files of the sweep") {
  const local::samples::Folder folder;
  std::filesystem::create_directories(folder.path() / "f");
  std::ofstream(folder.path() / "f" / "a") << "text";
  Sweeper sweeper(
      "name: x\nmode: allreduce\ndata: [{name: d, mount: /d, files: f}]\ntrain: {data: {path: /d}, steps: "
      "1}\n");
  sweeper.file.folder = folder.path();
  const std::string before = sweeper.cluster.names("configmaps");
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "POST" || asked.body.find("-data-d\"") == std::string::npos) return std::nullopt;
    return test::refusal(403, "Forbidden", "exceeded quota: few");
  });
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=0.1,0.2"});
  CHECK_THROWS_WITH_AS(prepare_driven(client, sweeper.request(sweep), sweeper.hooks()),
                       doctest::Contains("exceeded quota"), Error);
  CHECK(sweeper.cluster.names("configmaps") == before);
}

TEST_CASE("mlk checks the right to the driver's Lease before it creates any object") {
  Sweeper sweeper("name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1}\n");
  const std::string before = sweeper.cluster.names("configmaps");
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.body.find("\"leases\"") == std::string::npos ||
        asked.body.find("\"patch\"") == std::string::npos)
      return std::nullopt;
    local::Answer no;
    no.status = 201;
    no.body = R"({"kind": "SelfSubjectAccessReview", "status": {"allowed": false}})";
    return no;
  });
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=0.1,0.2"});
  CHECK_THROWS_WITH_AS(prepare_driven(client, sweeper.request(sweep), sweeper.hooks()),
                       doctest::Contains("you may not patch leases"), Error);
  CHECK(sweeper.cluster.names("configmaps") == before);
}

TEST_CASE("a failed trial is started again while other Jobs run, if there is a free place") {
  Sweeper sweeper(growing_experiment(4));
  sweeper.most_points_bytes = 300;
  const Started first = sweeper.start({"lr=0.1,0.2,0.3,0.4"});
  REQUIRE(first.jobs == 2);
  sweeper.set_job_status(first.sweep + "-trials-0", "0", "1");
  sweeper.retry_failed = true;
  CHECK(sweeper.start({"lr=0.1,0.2,0.3,0.4"}).retried == 1);  // the retry uses the place of the ended Job
  CHECK(sweeper.start({"lr=0.1,0.2,0.3,0.4"}).retried == 0);  // the retry has not ended
  sweeper.set_job_status(first.sweep + "-trials-2", "", "0");
  sweeper.start({"lr=0.1,0.2,0.3,0.4,0.5"});
  CHECK(sweeper.batches(first.sweep).size() == 4);
}

TEST_CASE("why_results_may_vanish() warns if a sweep without a driver has more than 12 500 trials") {
  CHECK(why_results_may_vanish(12'500) == "");
  CHECK(why_results_may_vanish(12'501).find("keep only 12500 ended pods") != std::string::npos);
}
