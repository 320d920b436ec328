#include "sweeps/trials/observe.h"

#include <string>

#include <doctest/doctest.h>

#include "sweeps/space/ledger.h"
#include "sweeps/trials/sweep_json.h"

TEST_SUITE_BEGIN("sweeps/trials/observe");

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

TEST_CASE("the log of a trial comes from the program's container, at any position in the pod") {
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

TEST_CASE("a sweep has succeeded when its Jobs have ended and not too many trials have failed") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0,2-3"}, {"failedIndexes", "1"}});
  sweep.finish("Failed", "FailedIndexes");
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::succeeded);
  CHECK(exit_code(status) == ExitCode::ok);
  CHECK(status.ended.has_value());
}

TEST_CASE("a sweep has failed if too many of its trials have failed, or if all of them have failed") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0"}, {"failedIndexes", "1-2"}});
  sweep.add_pod(1, "Failed", Sweep::ended(3, "no data"));
  sweep.finish("Failed", "MaxFailedIndexesExceeded");
  SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::failed);
  CHECK(exit_code(status) == ExitCode::run_failed);
  CHECK(status.why == "2 of 4 trials failed; the first, 1: exit code 3: no data");
  CHECK(status.trials[3].state == TrialState::stopped);  // no process will start the trial
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", ""}, {"failedIndexes", "0-3"}});
  sweep.finish("Failed", "FailedIndexes");
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::failed);
}

TEST_CASE("if a sweep does not have all of its Jobs, its status says that its start was cut off") {
  Sweep sweep;
  sweep.add_map(1, R"({"trial": 4, "parameters": {"lr": 4}})");
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::incomplete);
  CHECK(status.why == "the command that starts the sweep was cut off: type it again");
  CHECK(status.trials.size() == 5);
  CHECK(observe_sweep({Sweep().objects.owner, {}, {}, {}}, {}).phase == Phase::incomplete);
}

TEST_CASE("a sweep and its unfinished trials are stopped until another program resumes the Job") {
  Sweep sweep;
  sweep.objects.owner["metadata"]["annotations"]["mlk.dev/stopped"] = "2026-11-23T10:00:00Z";
  sweep.objects.jobs[0]["spec"]["suspend"] = true;
  sweep.objects.jobs[0]["status"]["completedIndexes"] = "0";
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::stopped);
  CHECK(exit_code(status) == ExitCode::stopped);
  CHECK(status.counts.stopped == 3);
  sweep.objects.jobs[0]["metadata"]["annotations"]["mlk.dev/suspended"] = "true";
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::stopped);
  sweep.objects.jobs[0]["spec"]["suspend"] = false;  // by another program
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::running);
  CHECK(observe_sweep(sweep.objects, {}).counts.stopped == 0);
  sweep.objects.jobs[0]["status"]["completedIndexes"] = "0-3";
  sweep.finish("Complete", "CompletionsReached");
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::succeeded);
}

TEST_CASE("a trial that was started again has the state of its later try") {
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

TEST_CASE("a trial that runs again does not copy a failure from the ledger, even if its old pods are gone") {
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

TEST_CASE("select_trial() drops all other trials, and throws if the trial does not exist") {
  SweepStatus status = observe_sweep(Sweep().objects, {});
  CHECK_THROWS_WITH_AS(select_trial(status, 4), "sweep s-abcde has no trial 4", Error);
  status = observe_sweep(Sweep().objects, {});
  select_trial(status, 2);
  REQUIRE(status.trials.size() == 1);
  CHECK(status.trials[0].number == 2);
  // Without the other trials the best trial of the sweep is unknown.
  status.trials[0].state = TrialState::succeeded;
  status.trials[0].objective = 0.5;
  CHECK(best_of(status) == nullptr);
  CHECK(to_json(status)["best"].is_null());
}

TEST_CASE("objects with invalid content still give a status") {
  const json rubbish = json::array({1, "a", nullptr, {{"b", 1e300}}});
  SweepObjects objects{
      {{"metadata", {{"name", "s"}, {"labels", rubbish}}}, {"data", {{"sweep", "[[["}}}},
      {{{"metadata", {{"name", "s-trials-0"}}}, {"data", {{"points.jsonl", "{\"trial\":1"}}}},
       {{"metadata", {{"name", "s-trials-x"}}}, {"data", rubbish}}},
      {{{"metadata", {{"name", "s-trials-0"}}}, {"status", rubbish}, {"spec", rubbish}}},
      {{{"metadata", rubbish}, {"status", rubbish}}}};
  CHECK(observe_sweep(objects, {}).trials.empty());
}

namespace {

Time second_of(int second) {
  return *parse_time("2026-11-23T10:00:" + std::string(second < 10 ? "0" : "") + std::to_string(second) +
                     "Z");
}

void end_pod_at(json& pod, int second) {
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = format_time(second_of(second));
}

}  // namespace

TEST_CASE("the status of a sweep quotes the failed trial that ended first, whatever its number") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0"}, {"failedIndexes", "1-3"}});
  sweep.finish("Failed", "FailedIndexes");
  const auto why = [&] { return observe_sweep(sweep.objects, {}).why; };
  CHECK(why() == "3 of 4 trials failed; the first, 1: it failed");
  sweep.add_pod(3, "Failed", Sweep::ended(3, "late"));
  end_pod_at(sweep.objects.pods.back(), 40);
  CHECK(why() == "3 of 4 trials failed; the first, 3: exit code 3: late");  // the other trials have no time
  sweep.add_pod(2, "Failed", Sweep::ended(4, "early"));
  end_pod_at(sweep.objects.pods.back(), 20);
  CHECK(why() == "3 of 4 trials failed; the first, 2: exit code 4: early");
  sweep.add_pod(1, "Failed", Sweep::ended(5, "later"));
  end_pod_at(sweep.objects.pods.back(), 30);
  CHECK(why() == "3 of 4 trials failed; the first, 2: exit code 4: early");
}

TEST_CASE("the newest pod of an index gives the state of its trial, and the number of earlier tries") {
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

TEST_CASE("a trial has no pod with a readable log while its pod waits") {
  Sweep sweep;
  sweep.add_pod(0, "Pending");
  sweep.objects.pods[0]["status"]["containerStatuses"] = json::array();
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.newest_pods.empty());
  CHECK_FALSE(status.trials[0].started.has_value());
  CHECK(status.trials[0].tries == 1);
}

TEST_CASE("a trial in a second Job has one try more than the pods of its first Job show") {
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

TEST_CASE("the phase of an ended sweep of the cluster follows from the states of its trials") {
  struct Case {
    const char *completed, *failed;
    int may_fail;
    Phase phase;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"0-3", "", 0, Phase::succeeded},
                                   {"0-1", "2-3", 2, Phase::succeeded},
                                   {"0-1", "2-3", 1, Phase::failed},
                                   {"", "0-3", 4, Phase::failed},      // no trial succeeded
                                   {"0-1", "2", 4, Phase::failed}}) {  // one trial never started
    INFO((std::string(c.completed) + "/" + c.failed + " of "), c.may_fail);
    Sweep sweep;
    sweep.objects.owner["data"]["sweep"] = json{{"trials", 4}, {"max_failures", c.may_fail}}.dump();
    sweep.objects.jobs[0]["status"].update({{"completedIndexes", c.completed}, {"failedIndexes", c.failed}});
    CHECK(observe_sweep(sweep.objects, {}).phase == Phase::running);
    CHECK_FALSE(observe_sweep(sweep.objects, {}).ended.has_value());
    sweep.finish("Failed", "FailedIndexes");
    const SweepStatus status = observe_sweep(sweep.objects, {});
    CHECK(status.phase == c.phase);
    CHECK(status.counts.waiting == 0);
    CHECK(exit_code(status) == (c.phase == Phase::succeeded ? ExitCode::ok : ExitCode::run_failed));
  }
}

TEST_CASE("a sweep of several Jobs begins with the first Job, and ends with the last Job") {
  Sweep sweep;
  sweep.add_map(1, R"({"trial": 4, "parameters": {"lr": 4}})");
  sweep.objects.jobs.push_back(Sweep::job(1, 1));
  sweep.objects.jobs[1]["status"] = {{"startTime", "2026-11-23T09:00:00Z"}};
  sweep.objects.jobs[0]["status"]["completedIndexes"] = "0-3";
  sweep.finish("Complete", "CompletionsReached");
  SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::running);
  CHECK(status.jobs_go_on);
  CHECK(status.started == parse_time("2026-11-23T09:00:00Z"));
  CHECK_FALSE(status.ended.has_value());
  sweep.objects.jobs[1]["status"].update(
      {{"completedIndexes", "0"},
       {"completionTime", "2026-11-23T10:00:30Z"},
       {"conditions",
        {{{"type", "Complete"}, {"status", "True"}, {"lastTransitionTime", "2026-11-23T10:00:30Z"}}}}});
  status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::succeeded);
  CHECK_FALSE(status.jobs_go_on);
  CHECK(status.ended == parse_time("2026-11-23T10:01:00Z"));
}

TEST_CASE("if no trial runs, the sweep waits for nodes, or for pods that already have a node") {
  Sweep sweep;
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::scheduling);
  sweep.add_pod(0, "Pending");
  json& pod = sweep.objects.pods[0];
  pod["status"] = {{"phase", "Pending"},
                   {"conditions",
                    {{{"type", "PodScheduled"},
                      {"status", "False"},
                      {"reason", "Unschedulable"},
                      {"message", "0/3 nodes are available: 3 Insufficient cpu."}}}}};
  SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::scheduling);
  CHECK(status.why.find("cpu") != std::string::npos);
  CHECK_FALSE(status.cannot_start);
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = {
      {"phase", "Pending"},
      {"conditions", {{{"type", "PodScheduled"}, {"status", "True"}}}},
      {"containerStatuses",
       {{{"name", "main"},
         {"state", {{"waiting", {{"reason", "InvalidImageName"}, {"message", "no such name"}}}}}}}}};
  status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::starting);
  CHECK(status.why.find("invalid image name") != std::string::npos);
  CHECK(status.cannot_start);
  sweep.objects.jobs[0]["status"]["failedIndexes"] = "1";  // another trial has started
  status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::running);
  CHECK(status.why.find("invalid image name") != std::string::npos);
  CHECK_FALSE(status.cannot_start);
  sweep.add_pod(2, "Running");
  CHECK(observe_sweep(sweep.objects, {}).why == "");  // a trial runs
}

TEST_CASE("the status of a sweep says whether a missing Job was made, and whether it is gone") {
  Sweep sweep;
  json& annotations = sweep.objects.owner["metadata"]["annotations"];
  const json job = sweep.objects.jobs[0];
  sweep.objects.jobs.clear();
  annotations["mlk.dev/created"] = "s-abcde-trials-0";
  SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::incomplete);
  CHECK(status.why == "its Job is not there; one more look says whether it is gone");
  CHECK(status.trials[0].state == TrialState::waiting);
  annotations["mlk.dev/gone"] = "s-abcde-trials-0";
  status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::failed);
  CHECK(status.counts.failed == 4);
  CHECK(status.trials[3].failure == job_is_gone);
  CHECK(status.trials[3].tries == 0);
  CHECK(exit_code(status) == ExitCode::failure);  // no object shows how the trials ended
  CHECK(status.why == "4 of 4 trials failed; the first, 0: " + std::string(job_is_gone));
  Trial known;
  known.number = 2;
  known.point = {{"lr", 2}};
  known.state = TrialState::succeeded;
  known.tries = 1;
  sweep.objects.config_maps.push_back(
      {{"metadata", {{"name", "s-abcde-ledger-0"}}}, {"data", {{"trials.jsonl", to_line(known)}}}});
  status = observe_sweep(sweep.objects, {});
  CHECK(status.trials[2].state == TrialState::succeeded);
  CHECK(exit_code(status) == ExitCode::run_failed);
  sweep.objects.jobs.push_back(job);
  CHECK(observe_sweep(sweep.objects, {}).phase == Phase::running);
}

TEST_CASE(
    "a trial that is only in the ledger is not in the sweep, and a waiting trial has its earlier reports") {
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

TEST_CASE(
    "a trial gets step, metrics and objective from its result, and a curve only if the metric is the loss") {
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

TEST_CASE("the JSON of a sweep contains its phase, times, counts and best trial") {
  Sweep sweep;
  sweep.objects.owner["metadata"]["creationTimestamp"] = "2026-11-23T09:59:00Z";
  sweep.objects.owner["metadata"]["labels"]["mlk.dev/mode"] = "single";
  sweep.objects.owner["data"]["sweep"] =
      R"({"objective": {"maximize": "accuracy"}, "trials": 4, "max_failures": 1, "search": "grid", "parallel": 2})";
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0,2-3"}, {"failedIndexes", "1"}});
  sweep.add_pod(0, "Succeeded", Sweep::ended(0, Sweep::result(0.5)));
  sweep.add_pod(2, "Succeeded", Sweep::ended(0, Sweep::result(0.9)));
  sweep.finish("Failed", "FailedIndexes");
  CHECK(to_json(observe_sweep(sweep.objects, {})) ==
        json{{"sweep", "s-abcde"},
             {"name", "s"},
             {"mode", "single"},
             {"phase", "Succeeded"},
             {"why", ""},
             {"driver", ""},
             {"created", "2026-11-23T09:59:00Z"},
             {"started", "2026-11-23T10:00:00Z"},
             {"ended", "2026-11-23T10:01:00Z"},
             {"trials", 4},
             {"counts", {{"waiting", 0}, {"running", 0}, {"succeeded", 3}, {"failed", 1}, {"stopped", 0}}},
             {"search", "grid"},
             {"parallel", 2},
             {"best", {{"trial", 2}, {"objective", 0.9}, {"parameters", {{"lr", 2}}}}}});
  const json fresh = to_json(observe_sweep(Sweep().objects, {}));
  CHECK(fresh["counts"]["waiting"] == 4);
  CHECK(fresh["started"] == "2026-11-23T10:00:00Z");
  CHECK(fresh["ended"].is_null());
  CHECK(fresh["best"].is_null());
}
