#include "sweeps/observe.h"

#include <string>

#include <doctest/doctest.h>

#include "sweeps/ledger.h"

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

// A sweep of four trials in one Job, as the API server gives it.
struct Sweep {
  SweepObjects objects;

  Sweep() {
    objects.owner = {
        {"metadata",
         {{"name", "s-abcde"},
          {"uid", "u"},
          {"labels", {{"mlk.dev/run", "s-abcde"}, {"mlk.dev/sweep", "s-abcde"}, {"mlk.dev/name", "s"}}},
          {"annotations", json::object()}}},
        {"data", {{"sweep", R"({"objective": {"maximize": "accuracy"}, "trials": 4, "max_failures": 1})"}}}};
    std::string points;
    for (int i = 0; i < 4; ++i) points += json{{"trial", i}, {"parameters", {{"lr", i}}}}.dump() + "\n";
    add_map(0, points);
    objects.jobs.push_back(job(0, 4));
  }

  void add_map(int number, const std::string& points) {
    objects.config_maps.push_back({{"metadata", {{"name", "s-abcde-trials-" + std::to_string(number)}}},
                                   {"data", {{"points.jsonl", points}}}});
  }
  static json job(int number, int completions) {
    return {{"metadata",
             {{"name", "s-abcde-trials-" + std::to_string(number)},
              {"uid", "j"},
              {"labels", {{"mlk.dev/role", "trial"}}}}},
            {"spec", {{"completions", completions}, {"parallelism", 2}, {"backoffLimitPerIndex", 0}}},
            {"status", {{"startTime", "2026-11-23T10:00:00Z"}}}};
  }
  void add_pod(int index, const std::string& phase, const json& terminated = nullptr, int job = 0) {
    const std::string name = "s-abcde-trials-" + std::to_string(job);
    json pod = {{"metadata",
                 {{"name", name + "-" + std::to_string(index) + "-x"},
                  {"uid", "p" + std::to_string(index) + std::to_string(job)},
                  {"creationTimestamp", "2026-11-23T10:00:00Z"},
                  {"labels", {{"batch.kubernetes.io/job-name", name}, {"mlk.dev/role", "trial"}}},
                  {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(index)}}}}},
                {"status", {{"phase", phase}, {"startTime", "2026-11-23T10:00:01Z"}}}};
    const json running = {{"running", {{"startedAt", "2026-11-23T10:00:01Z"}}}};
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", terminated.is_null() ? running : json{{"terminated", terminated}}}}};
    objects.pods.push_back(std::move(pod));
  }
  static json ended(int code, const std::string& message) {
    return {{"exitCode", code},
            {"message", message},
            {"reason", code == 0 ? "Completed" : "Error"},
            {"startedAt", "2026-11-23T10:00:01Z"},
            {"finishedAt", "2026-11-23T10:00:05Z"}};
  }
  static std::string result(double accuracy) {
    return json{{"schema", 1},
                {"step", 7},
                {"metrics", {{"accuracy", accuracy}}},
                {"curve", {{1, 0.5}, {7, 0.1}}},
                {"done", true}}
        .dump();
  }
  void finish(const char* type, const char* reason) {
    objects.jobs[0]["status"]["conditions"] = {{{"type", type},
                                                {"status", "True"},
                                                {"reason", reason},
                                                {"lastTransitionTime", "2026-11-23T10:01:00Z"}}};
  }
};

}  // namespace

TEST_CASE("the container of a trial's log is the program's, wherever it stands in its pod") {
  Sweep sweep;
  sweep.add_pod(2, "Running");
  json& pod = sweep.objects.pods.back();
  pod["spec"]["containers"] = {{{"name", "proxy"}}, {{"name", "main"}}};
  const json main = pod["status"]["containerStatuses"][0];
  pod["status"]["containerStatuses"] = {{{"name", "proxy"}, {"state", main["state"]}}, main};
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.program_of.at(status.newest_pods.at(2)) == "main");
}

TEST_CASE("each trial has the state of its index and the report of its newest pod") {
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
  CHECK(status.trials[0].curve.empty());  // it is of the loss, and accuracy is the objective
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

TEST_CASE("a sweep has succeeded when its Jobs have ended and not too many trials have failed") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0,2-3"}, {"failedIndexes", "1"}});
  sweep.finish("Failed", "FailedIndexes");
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::succeeded);
  CHECK(exit_code(status) == ExitCode::ok);
  CHECK(status.ended.has_value());
}

TEST_CASE("a sweep has failed when too many trials have, or all of them") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0"}, {"failedIndexes", "1-2"}});
  sweep.add_pod(1, "Failed", Sweep::ended(3, "no data"));
  sweep.finish("Failed", "MaxFailedIndexesExceeded");
  SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::failed);
  CHECK(exit_code(status) == ExitCode::run_failed);
  CHECK(status.why == "2 of 4 trials failed; the first, 1: exit code 3: no data");
  CHECK(status.trials[3].state == TrialState::stopped);  // nobody will start it
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", ""}, {"failedIndexes", "0-3"}});
  sweep.finish("Failed", "FailedIndexes");
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::failed);
}

TEST_CASE("a sweep without all of its Jobs was cut off while it was started") {
  Sweep sweep;
  sweep.add_map(1, R"({"trial": 4, "parameters": {"lr": 4}})");
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::incomplete);
  CHECK(status.why == "the command that starts it was cut off: say it again");
  CHECK(status.trials.size() == 5);
  CHECK(observe_sweep({Sweep().objects.owner, {}, {}, {}}, {}).phase == Phase::incomplete);
}

TEST_CASE("a stopped sweep says so, and its trials that have not ended are stopped") {
  Sweep sweep;
  sweep.objects.owner["metadata"]["annotations"]["mlk.dev/stopped"] = "2026-11-23T10:00:00Z";
  sweep.objects.jobs[0]["spec"]["suspend"] = true;
  sweep.objects.jobs[0]["status"]["completedIndexes"] = "0";
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::stopped);
  CHECK(exit_code(status) == ExitCode::stopped);
  CHECK(status.counts.stopped == 3);
  sweep.objects.jobs[0]["status"]["completedIndexes"] = "0-3";
  sweep.finish("Complete", "CompletionsReached");
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::succeeded);
}

TEST_CASE("a trial that was started again has the state in its later Job") {
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

TEST_CASE(
    "a trial that runs again is not taken for the failure that the ledger knows, though its pods are gone") {
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

TEST_CASE("a trial alone is left when one is asked for, and one that is not there is told") {
  SweepStatus status = observe_sweep(Sweep().objects, {});
  CHECK_THROWS_WITH_AS(keep_trial(status, 4), "sweep s-abcde has no trial 4", Error);
  status = observe_sweep(Sweep().objects, {});
  keep_trial(status, 2);
  REQUIRE(status.trials.size() == 1);
  CHECK(status.trials[0].number == 2);
  // Alone it is not the best of the sweep.
  status.trials[0].state = TrialState::succeeded;
  status.trials[0].objective = 0.5;
  CHECK(best_of(status) == nullptr);
  CHECK(to_json(status)["best"].is_null());
}

TEST_CASE("objects of which nothing is as it should be give a status all the same") {
  const json rubbish = json::array({1, "a", nullptr, {{"b", 1e300}}});
  SweepObjects objects{
      {{"metadata", {{"name", "s"}, {"labels", rubbish}}}, {"data", {{"sweep", "[[["}}}},
      {{{"metadata", {{"name", "s-trials-0"}}}, {"data", {{"points.jsonl", "{\"trial\":1"}}}},
       {{"metadata", {{"name", "s-trials-x"}}}, {"data", rubbish}}},
      {{{"metadata", {{"name", "s-trials-0"}}}, {"status", rubbish}, {"spec", rubbish}}},
      {{{"metadata", rubbish}, {"status", rubbish}}}};
  CHECK(observe_sweep(objects, {}).trials.empty());
}
