// Tests what a driver does if the cluster refuses or fails, and what the command of a sweep reports before it
// drives the sweep.
#include <atomic>
#include <future>
#include <mutex>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "sweeps/driver/drive.h"
#include "sweeps/read/fetch.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/driver/drive_refusals");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::PlayedControllers;
using test::Sweeper;

namespace {

std::string refusing_experiment(const std::string& sweep, const std::string& more = "") {
  return "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n" + more +
         "sweep: {objective: maximize accuracy, " + sweep + "}\n";
}

struct Driven {
  SweepStatus status;
  std::vector<std::string> notes;
  int noted(const std::string& part) const {
    return static_cast<int>(std::count_if(notes.begin(), notes.end(), [&](const std::string& note) {
      return note.find(part) != std::string::npos;
    }));
  }
};

Driven drive_and_note(Sweeper& sweeper, const std::vector<std::string>& words,
                      const std::function<void(const SweepStatus&)>& changed = {}) {
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define(words);
  const StartRequest request = sweeper.request(sweep);
  prepare_driven(client, request, sweeper.hooks());
  Driven out;
  std::mutex mutex;
  SubmitHooks hooks = sweeper.hooks();
  hooks.note = [&](const std::string& note) {
    const std::lock_guard lock(mutex);
    out.notes.push_back(note);
  };
  out.status = drive(client, request,
                     {.submit = hooks,
                      .changed =
                          [&](const SweepStatus& status) {
                            if (changed) changed(status);
                          },
                      .waiting = [](const std::string&) {},
                      .judge_every = std::chrono::milliseconds(50),
                      .lease = test::short_lease});
  return out;
}

std::string run_for(const Sweeper& sweeper, const std::vector<std::string>& words, double lr) {
  return trial_run(sweeper.define(words).identity.run, hash_of(Point{{"train.optimizer.lr", lr}}));
}

bool makes_job(const local::Request& asked, const std::string& run) {
  return asked.method == "POST" && asked.path.ends_with("/jobs") &&
         asked.body.find("\"" + run + "-worker\"") != std::string::npos;
}

bool makes_owner(const local::Request& asked, const std::string& run) {
  return asked.method == "POST" && asked.path.ends_with("/configmaps") &&
         asked.body.find("\"name\":\"" + run + "\"") != std::string::npos;
}

Started prepare(Sweeper& sweeper, const Definition& sweep) {
  kube::Client client(sweeper.cluster.config());
  return prepare_driven(client, sweeper.request(sweep), sweeper.hooks());
}

}  // namespace

TEST_CASE("a trial fails with the cluster's message if the cluster refuses it, and other trials continue") {
  Sweeper sweeper(refusing_experiment("parallel: 1, max_failures: 1"));
  const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  const std::vector<std::string> words{"lr=0.1,0.2,0.3"};
  const std::string refused = run_for(sweeper, words, 0.2);
  std::atomic<int> refusals{0};
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (!makes_job(asked, refused)) return std::nullopt;
    ++refusals;
    return test::refusal(403, "Forbidden", "jobs.batch is forbidden: not in this house");
  });
  const Driven driven = drive_and_note(sweeper, words);
  CHECK(driven.status.phase == Phase::succeeded);
  REQUIRE(driven.status.trials.size() == 3);
  const Trial& trial = driven.status.trials[1];
  CHECK(trial.state == TrialState::failed);
  CHECK(trial.failure.find("not in this house") != std::string::npos);
  CHECK(trial.tries == 1);
  CHECK(trial.ended.has_value());
  CHECK(driven.status.counts.succeeded == 2);
  CHECK(driven.noted("retrying") == 0);
  CHECK(refusals == 1);  // holds also if an object changes before the driver reads its own write
}

TEST_CASE("a driver tries again, and prints one message, if the quota has no room for a trial") {
  // With an early-stopping rule the next round of a driver begins soon.
  Sweeper sweeper(refusing_experiment("parallel: 1, max_failures: 0, stop: median"));
  const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  const std::vector<std::string> words{"lr=0.1,0.2"};
  const std::string refused = run_for(sweeper, words, 0.2);
  std::atomic<int> refusals{0};
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (!makes_owner(asked, refused) || refusals >= 3) return std::nullopt;
    ++refusals;
    return test::refusal(403, "Forbidden", "configmaps is forbidden: exceeded quota: q");
  });
  const Driven driven = drive_and_note(sweeper, words);
  CHECK(driven.status.phase == Phase::succeeded);
  CHECK(driven.status.counts.succeeded == 2);
  CHECK(driven.status.trials[1].failure == "");
  CHECK(refusals == 3);
  CHECK(driven.noted("exceeded quota: q; retrying") == 1);
}

TEST_CASE("after an error of the server, a driver prints the error, and tries again") {
  Sweeper sweeper(refusing_experiment("parallel: 2"));
  const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  std::atomic<int> failures{0};
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    const bool of_sweep = asked.path.ends_with("/pods") && asked.parameter("watch").empty();
    if (asked.method != "GET" || !of_sweep || failures >= 1) return std::nullopt;
    ++failures;
    return test::refusal(404, "NotFound", "not here now");
  });
  const Driven driven = drive_and_note(sweeper, {"lr=0.1"});
  CHECK(driven.status.counts.succeeded == 1);
  CHECK(driven.noted("not here now; retrying") == 1);
}

TEST_CASE("a driver ends if the server refuses a request for good") {
  for (const int code : {400, 422, 403, 401}) {
    INFO(code);
    Sweeper sweeper(refusing_experiment("parallel: 2"));
    sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      if (asked.method != "GET" || !asked.path.ends_with("/pods")) return std::nullopt;
      return test::refusal(code, "Refused", "never");
    });
    const char* said = code == 401 ? "does not accept the credentials" : "never";
    CHECK_THROWS_WITH_AS(drive_and_note(sweeper, {"lr=0.1"}), doctest::Contains(said), Error);
  }
}

TEST_CASE(
    "a trial fails if it does not start within its start_timeout, and its error has the time and the "
    "reason") {
  Sweeper sweeper(refusing_experiment("parallel: 1, max_failures: 0, stop: median", "start_timeout: 1s\n"));
  const std::vector<std::string> words{"lr=0.1"};
  const std::string run = run_for(sweeper, words, 0.1);
  std::future<void> scheduler = std::async(std::launch::async, [&] {
    if (!eventually([&] { return sweeper.cluster.has("jobs", run + "-worker"); })) return;
    json pod = test::pod_of(run, "Pending");
    pod["metadata"]["labels"]["mlk.dev/sweep"] = sweeper.define(words).identity.run;
    pod["spec"].erase("nodeName");
    pod["status"]["conditions"] = {{{"type", "PodScheduled"},
                                    {"status", "False"},
                                    {"reason", "Unschedulable"},
                                    {"message", "0/3 nodes are available: 3 Insufficient cpu."}}};
    sweeper.cluster.store.create("pods", pod);
  });
  const Driven driven = drive_and_note(sweeper, words);
  scheduler.get();
  CHECK(driven.status.phase == Phase::failed);
  const std::string& failure = driven.status.trials[0].failure;
  INFO(failure);
  CHECK(failure.starts_with("it did not start within 1s: "));
  CHECK(failure.find("cpu") != std::string::npos);
}

TEST_CASE("a driver never reports that nobody drives its sweep") {
  Sweeper sweeper(refusing_experiment("parallel: 1"));
  const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  std::vector<std::string> said;
  drive_and_note(sweeper, {"lr=0.1,0.2"}, [&](const SweepStatus& status) { said.push_back(status.why); });
  REQUIRE_FALSE(said.empty());
  CHECK(said.front() == "");
  for (const std::string& why : said) CHECK(why.find("no trial runs") == std::string::npos);
}

TEST_CASE("if the median rule stops a trial, the reason of the trial names the step of the decision") {
  Sweeper sweeper(refusing_experiment("parallel: 4, stop: {median: {grace: 3, min_trials: 2}}"));
  test::PlayedControllers controllers(
      sweeper.cluster, [](double lr) { return lr > 0.25 ? PlayedControllers::runs_on : 0; },
      [](double lr) { return "mlk step=5 accuracy=" + std::to_string(1 - lr); });
  sweeper.cluster.before([&](const local::Request& asked) { return controllers.answer(asked); });
  const Driven driven = drive_and_note(sweeper, {"lr=0.1,0.2,0.3"});
  CHECK(driven.status.phase == Phase::succeeded);
  REQUIRE(driven.status.trials.size() == 3);
  CHECK(driven.status.trials[2].state == TrialState::stopped);
  CHECK(driven.status.trials[2].failure == "stopped early by median at step 5");
  CHECK(driven.status.counts.succeeded == 2);
}

TEST_CASE("a command that will drive a sweep reports missing rights before it creates any object") {
  struct Case {
    const char *verb, *resource;
  };
  for (const Case& c : std::initializer_list<Case>{{"get", "leases"},
                                                   {"create", "leases"},
                                                   {"patch", "leases"},
                                                   {"watch", "configmaps"},
                                                   {"watch", "jobs"},
                                                   {"watch", "pods"},
                                                   {"patch", "configmaps"},
                                                   {"patch", "jobs"}}) {
    INFO((std::string(c.verb) + " " + c.resource));
    Sweeper sweeper(refusing_experiment("parallel: 2"));
    sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      if (asked.path.find("accessreviews") == std::string::npos) return std::nullopt;
      const json question = json::parse(asked.body)["spec"]["resourceAttributes"];
      local::Answer answer;
      answer.status = 201;
      const bool is_that = question["verb"] == c.verb && question["resource"] == c.resource;
      answer.body = json({{"status", {{"allowed", !is_that}}}}).dump();
      return answer;
    });
    kube::Client client(sweeper.cluster.config());
    const Definition sweep = sweeper.define({"lr=0.1"});
    StartRequest request = sweeper.request(sweep);
    const std::string what = std::string("you may not ") + c.verb + " " + c.resource;
    CHECK_THROWS_WITH_AS(prepare_driven(client, request, sweeper.hooks()), doctest::Contains(what.c_str()),
                         Error);
    CHECK_FALSE(sweeper.cluster.has("configmaps", sweep.identity.run));
    request.detached = true;
    CHECK_NOTHROW(prepare_driven(client, request, sweeper.hooks()));
  }
}

TEST_CASE("a command says how many trials a driven sweep has, and how many trials were added") {
  Sweeper sweeper(refusing_experiment("parallel: 2"));
  const Definition two = sweeper.define({"lr=0.1,0.2"}), three = sweeper.define({"lr=0.1,0.2,0.3"});
  const Started first = prepare(sweeper, two);
  CHECK(first.sweep == two.identity.run);
  CHECK(first.trials == 2);
  CHECK(first.started == 2);
  CHECK(first.retried == 0);
  const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  REQUIRE(drive_and_note(sweeper, {"lr=0.1,0.2"}).status.phase == Phase::succeeded);
  const auto phase = [&] {
    const json owner = sweeper.cluster.ask("GET", test::config_maps_path + "/" + two.identity.run);
    return kube::annotation_of(owner, annotations::phase);
  };
  CHECK(phase() == "Succeeded");
  const Started again = prepare(sweeper, two);
  CHECK(again.trials == 2);
  CHECK(again.started == 0);
  CHECK(phase() == "Succeeded");  // the command has no work
  const Started more = prepare(sweeper, three);
  CHECK(more.trials == 3);
  CHECK(more.started == 1);
  CHECK(phase() == "");
  const json owner = sweeper.cluster.ask("GET", test::config_maps_path + "/" + two.identity.run);
  CHECK(read_record(owner).trials == 3);
  CHECK(read_record(owner).driven);
}

TEST_CASE("a command says how many trials a search will have, and how many are added if `trials` is raised") {
  Sweeper sweeper(refusing_experiment("parallel: 2"));
  const Definition five = sweeper.define({"lr=0.1..0.9"}, "5"), nine = sweeper.define({"lr=0.1..0.9"}, "9");
  CHECK(prepare(sweeper, five).started == 5);
  CHECK(prepare(sweeper, five).trials == 5);
  CHECK(prepare(sweeper, nine).trials == 9);
  const PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  REQUIRE(sweeper.drive_to_end({"lr=0.1..0.9"}, "5").counts.succeeded == 5);
  const Started more = prepare(sweeper, nine);
  CHECK(more.trials == 9);
  CHECK(more.started == 4);
  CHECK(prepare(sweeper, five).started == 0);
}

TEST_CASE("a dry run of a driven sweep says how many trials there would be, and creates nothing") {
  Sweeper sweeper(refusing_experiment("parallel: 2"));
  const std::string before = sweeper.cluster.names("configmaps");
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"lr=0.1,0.2"});
  StartRequest request = sweeper.request(sweep);
  request.dry_run = true;
  const Started started = prepare_driven(client, request, sweeper.hooks());
  CHECK(started.sweep == sweep.identity.run);
  CHECK(started.trials == 2);
  CHECK(started.started == 0);
  CHECK(sweeper.cluster.names("configmaps") == before);
}

TEST_CASE("--retry-failed also starts trials that were stopped because too many others had failed") {
  for (const bool ended_early : {false, true}) {
    INFO(ended_early);
    Sweeper sweeper(refusing_experiment("parallel: 2, max_failures: 0"));
    const std::vector<std::string> words{"lr=0.1,0.2"};
    {
      const PlayedControllers controllers(
          sweeper.cluster, [](double lr) { return lr > 0.15 ? PlayedControllers::runs_on : 64; });
      const SweepStatus status = drive_and_note(sweeper, words).status;
      REQUIRE(status.phase == Phase::failed);
      REQUIRE(status.counts.failed == 1);
      REQUIRE(status.counts.stopped == 1);
    }
    if (ended_early)
      sweeper.cluster.ask("PATCH", test::config_maps_path + "/" + run_for(sweeper, words, 0.2),
                          {{"metadata", {{"annotations", {{annotations::stopped_early, "by asha"}}}}}},
                          "application/merge-patch+json");
    sweeper.retry_failed = true;
    const Started again = prepare(sweeper, sweeper.define(words));
    CHECK(again.retried == (ended_early ? 1 : 2));
    CHECK(again.started == again.retried);
    CHECK(again.trials == 2);
    CHECK(prepare(sweeper, sweeper.define(words)).retried == 0);  // the retries have not ended
  }
}
