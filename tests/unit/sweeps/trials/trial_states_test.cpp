// Tests the states of the trials of a sweep, from objects as the API server gives them.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sweeps/space/ledger.h"
#include "sweeps/trials/observe.h"
#include "tests/unit/sweeps/job_sweep.h"

TEST_SUITE_BEGIN("sweeps/trials/trial_states");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::second_of;
using test::Sweep;

TEST_CASE(
    "the log of a trial comes from the program's container, even if another container is first in the pod") {
  Sweep sweep;
  sweep.add_pod(2, "Running");
  json& pod = sweep.objects.pods.back();
  pod["spec"]["containers"] = {{{"name", "proxy"}}, {{"name", "main"}}};
  const json main = pod["status"]["containerStatuses"][0];
  pod["status"]["containerStatuses"] = {{{"name", "proxy"}, {"state", main["state"]}}, main};
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.program_of.at(status.newest_pods.at(2)) == "main");
}

TEST_CASE("a trial has the state of its index in the Job, and the report of its newest pod") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0"}, {"failedIndexes", "1"}});
  sweep.add_pod(0, "Succeeded", Sweep::ended(0, Sweep::result(0.9)));
  sweep.add_pod(1, "Failed", Sweep::ended(3, "cannot open x"));
  sweep.add_pod(2, "Running");
  const SweepStatus status = observe_sweep(sweep.objects, {});
  REQUIRE(status.trials.size() == 4);
  CHECK(status.phase == Phase::running);
  CHECK(status.trials[0].state == TrialState::succeeded);
  CHECK(status.trials[0].objective == 0.9);
  CHECK(status.trials[0].step == 7);
  CHECK(status.trials[0].curve.empty());  // the curve is of the loss, and accuracy is the objective
  CHECK(status.trials[0].tries == 1);
  CHECK(status.trials[1].state == TrialState::failed);
  CHECK(status.trials[1].failure == "exit code 3: cannot open x");
  CHECK(status.trials[2].state == TrialState::running);
  CHECK(status.trials[3].state == TrialState::waiting);
  CHECK(status.counts.running == 1);
  CHECK(status.counts.all() == 4);
  CHECK(status.newest_pods.at(2) == "s-abcde-trials-0-2-x");
  REQUIRE(best_of(status) != nullptr);
  CHECK(best_of(status)->number == 0);
}

TEST_CASE("a trial that was started again has the state of its last try") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0,2-3"}, {"failedIndexes", "1"}});
  sweep.finish("Failed", "FailedIndexes");
  sweep.add_map(1, R"({"trial": 1, "parameters": {"lr": 1}})");
  sweep.objects.jobs.push_back(Sweep::job(1, 1));
  sweep.add_pod(0, "Running", nullptr, 1);
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.trials.size() == 4);
  CHECK(status.trials[1].state == TrialState::running);
  CHECK(status.trials[1].tries == 2);
  CHECK(status.phase == Phase::running);
}

TEST_CASE("a trial that runs again does not have the old failure from the ledger") {
  Sweep sweep;
  sweep.objects.jobs[0]["spec"]["backoffLimitPerIndex"] = 3;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0,2-3"}, {"failedIndexes", "1"}});
  sweep.finish("Failed", "FailedIndexes");
  Trial failed;
  failed.number = 1;
  failed.point = {{"lr", 1}};
  failed.state = TrialState::failed;
  failed.tries = 4;
  failed.failure = "exit code 1";
  sweep.objects.config_maps.push_back(
      {{"metadata", {{"name", "s-abcde-ledger-0"}}}, {"data", {{"trials.jsonl", to_line(failed)}}}});
  CHECK(observe_sweep(sweep.objects, {}).trials[1].state == TrialState::failed);
  sweep.add_map(1, R"({"trial": 1, "parameters": {"lr": 1}})");
  json again = Sweep::job(1, 1);
  again["spec"]["backoffLimitPerIndex"] = 3;
  sweep.objects.jobs.push_back(again);
  sweep.add_pod(0, "Running", nullptr, 1);
  SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.trials[1].state == TrialState::running);
  CHECK(status.trials[1].tries == 5);
  CHECK(status.ledger.at(1).tries == 4);
  sweep.objects.jobs[1]["status"]["completedIndexes"] = "0";
  sweep.objects.pods.clear();
  status = observe_sweep(sweep.objects, {});
  CHECK(status.trials[1].state == TrialState::succeeded);
  CHECK(status.trials[1].failure.empty());
}

TEST_CASE("a trial has the state and the number of tries of the newest pod of its index") {
  Sweep sweep;
  sweep.objects.jobs[0]["spec"]["backoffLimitPerIndex"] = 3;
  sweep.add_pod(1, "Running");
  json& newer = sweep.objects.pods.back();
  newer["metadata"]["name"] = "newer";
  newer["metadata"]["uid"] = "n";
  newer["metadata"]["creationTimestamp"] = "2026-11-23T10:00:09Z";
  newer["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "2";
  sweep.add_pod(1, "Failed", Sweep::ended(3, "no data"));
  const Trial trial = observe_sweep(sweep.objects, {}).trials[1];
  CHECK(trial.state == TrialState::running);
  CHECK(trial.tries == 3);
  CHECK(trial.started == second_of(1));
  CHECK_FALSE(trial.ended.has_value());
  CHECK(trial.failure == "");
  CHECK(observe_sweep(sweep.objects, {}).newest_pods.at(1) == "newer");
}

TEST_CASE("the state of a trial follows from its Job and its pod") {
  struct Case {
    const char *completed, *failed, *phase;
    int code;  // -1: the program runs
    bool deleting;
    TrialState state;
    int tries;
  };
  using S = TrialState;
  for (const Case& c : std::initializer_list<Case>{
           {"", "", "", -1, false, S::waiting, 0},
           {"2", "", "", -1, false, S::succeeded, 1},  // the trial's pod is gone
           {"", "2", "", -1, false, S::failed, 1},
           {"", "", "Running", -1, false, S::running, 1},
           {"", "", "Running", -1, true, S::waiting, 1},      // the pod is being removed
           {"", "", "Succeeded", 0, false, S::succeeded, 1},  // the Job has not counted the pod yet
           {"", "", "Failed", 3, false, S::waiting, 1},       // the trial may be tried again
           {"", "2", "Failed", 3, false, S::failed, 1},
           {"2", "", "Running", -1, false, S::succeeded, 1}}) {
    INFO((std::string(c.completed) + "/" + c.failed + " " + c.phase + " "), c.code);
    Sweep sweep;
    sweep.objects.jobs[0]["spec"]["backoffLimitPerIndex"] = 3;
    sweep.objects.jobs[0]["status"].update({{"completedIndexes", c.completed}, {"failedIndexes", c.failed}});
    if (*c.phase != '\0')
      sweep.add_pod(2, c.phase, c.code < 0 ? json() : Sweep::ended(c.code, Sweep::result(0.5)));
    if (c.deleting) {
      sweep.objects.pods[0]["metadata"]["deletionTimestamp"] = "2026-11-23T10:00:30Z";
      sweep.objects.pods[0]["metadata"]["deletionGracePeriodSeconds"] = 30;
    }
    const SweepStatus status = observe_sweep(sweep.objects, {});
    const Trial& trial = status.trials[2];
    CHECK(trial.state == c.state);
    CHECK(trial.tries == c.tries);
    CHECK(trial.ended.has_value() == (c.code >= 0));
    CHECK((trial.failure == "") == (c.state != S::failed || c.code < 0));
    CHECK(status.newest_pods.count(2) == (*c.phase == '\0' ? 0 : 1));
  }
}

TEST_CASE("a trial has no log to read while its pod waits") {
  Sweep sweep;
  sweep.add_pod(0, "Pending");
  sweep.objects.pods[0]["status"]["containerStatuses"] = json::array();
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.newest_pods.empty());
  CHECK_FALSE(status.trials[0].started.has_value());
  CHECK(status.trials[0].tries == 1);
}

TEST_CASE("if a trial is in a second Job, its pods in the first Job count as earlier tries") {
  Sweep sweep;
  sweep.objects.jobs[0]["spec"]["backoffLimitPerIndex"] = 3;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0,2-3"}, {"failedIndexes", "1"}});
  sweep.add_pod(1, "Failed", Sweep::ended(3, "no data"));  // a final failure in the first try
  sweep.finish("Failed", "FailedIndexes");
  sweep.add_map(1, R"({"trial": 1, "parameters": {"lr": 1}})");
  sweep.objects.jobs.push_back(Sweep::job(1, 1));
  sweep.add_pod(0, "Running", nullptr, 1);
  CHECK(observe_sweep(sweep.objects, {}).trials[1].tries == 2);
}

TEST_CASE("a waiting trial keeps its earlier reports from the ledger") {
  Sweep sweep;
  Trial known;
  known.number = 7;
  known.state = TrialState::succeeded;
  Trial reported;
  reported.number = 1;
  reported.point = {{"lr", 1}};
  reported.state = TrialState::running;
  reported.step = 5;
  reported.metrics = {{"accuracy", 0.4}};
  reported.curve = {{5, 0.4}};
  sweep.objects.config_maps.push_back(
      {{"metadata", {{"name", "s-abcde-ledger-0"}}},
       {"data", {{"trials.jsonl", to_line(known) + "\n" + to_line(reported) + "\n"}}}});
  SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.trials.size() == 4);
  CHECK(status.ledger.size() == 2);
  CHECK(status.trials[1].state == TrialState::waiting);
  CHECK(status.trials[1].step == 5);
  CHECK(status.trials[1].metrics == reported.metrics);
  // The trial has ended, and its pod may have the last metrics: earlier metrics do not count as the last
  // metrics.
  sweep.objects.jobs[0]["status"]["failedIndexes"] = "1";
  sweep.add_pod(1, "Failed", Sweep::ended(3, "no data"));
  status = observe_sweep(sweep.objects, {});
  CHECK(status.trials[1].metrics.is_null());
  CHECK(status.trials[1].curve == reported.curve);
  sweep.objects.pods.clear();
  CHECK(observe_sweep(sweep.objects, {}).trials[1].metrics == reported.metrics);
}

TEST_CASE("read_result() gives a trial a curve if the objective is the loss") {
  const auto read = [](const json& result, std::optional<Objective> objective) {
    Trial trial;
    read_result(result, objective, trial);
    return trial;
  };
  Objective loss;
  loss.metric = "loss";
  Objective by_epoch = loss, accuracy = loss, best = loss;
  by_epoch.position = "epoch";
  accuracy.metric = "accuracy";
  best.of = Objective::Of::best;
  const json result = {{"step", 9},
                       {"metrics", {{"loss", 0.25}, {"accuracy", 0.75}, {"bad", "nan"}}},
                       {"curve", {{1, 2.5}, {9, 0.25}, {1.5, 3}, {1}, {1, "x"}, 7, {1, 2, 3}}}};
  const Trial trial = read(result, loss);
  CHECK(trial.step == 9);
  CHECK(trial.metrics == result["metrics"]);
  CHECK(trial.objective == 0.25);
  CHECK(trial.curve == std::vector<std::pair<std::int64_t, double>>{{1, 2.5}, {9, 0.25}});
  CHECK(read(result, {}).curve == trial.curve);
  CHECK_FALSE(read(result, {}).objective.has_value());
  CHECK(read(result, accuracy).curve.empty());
  CHECK(read(result, accuracy).objective == 0.75);
  CHECK(read(result, by_epoch).curve.empty());
  CHECK(read(result, by_epoch).objective == 0.25);
  CHECK_FALSE(read(result, best).objective.has_value());  // the last value is not the best value
  accuracy.metric = "bad";
  CHECK_FALSE(read(result, accuracy).objective.has_value());
  Trial untouched;
  untouched.step = 3;
  read_result("text", loss, untouched);
  CHECK(untouched.step == 3);
  CHECK(read({{"metrics", "x"}}, loss).metrics.is_null());
}
