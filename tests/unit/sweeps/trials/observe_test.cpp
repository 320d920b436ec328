#include "sweeps/trials/observe.h"

#include <string>

#include <doctest/doctest.h>

#include "sweeps/space/ledger.h"
#include "sweeps/trials/sweep_json.h"
#include "tests/unit/sweeps/job_sweep.h"

TEST_SUITE_BEGIN("sweeps/trials/observe");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::second_of;
using test::Sweep;

TEST_CASE("a sweep has succeeded when all Jobs have ended and few enough trials have failed") {
  Sweep sweep;
  sweep.objects.jobs[0]["status"].update({{"completedIndexes", "0,2-3"}, {"failedIndexes", "1"}});
  sweep.finish("Failed", "FailedIndexes");
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::succeeded);
  CHECK(exit_code(status) == ExitCode::ok);
  CHECK(status.ended.has_value());
}

TEST_CASE("a sweep has failed if all of its trials have failed, or too many of them") {
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

TEST_CASE("if a Job of a sweep is missing, the status says that the start of the sweep was cut off") {
  Sweep sweep;
  sweep.add_map(1, R"({"trial": 4, "parameters": {"lr": 4}})");
  const SweepStatus status = observe_sweep(sweep.objects, {});
  CHECK(status.phase == Phase::incomplete);
  CHECK(status.why == "the command that starts the sweep was cut off: type it again");
  CHECK(status.trials.size() == 5);
  CHECK(observe_sweep({Sweep().objects.owner, {}, {}, {}}, {}).phase == Phase::incomplete);
}

TEST_CASE("a stopped sweep and its unfinished trials stay stopped until another program resumes the Job") {
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

TEST_CASE("select_trial() keeps one trial, and throws if this trial does not exist") {
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

TEST_CASE("observe_sweep() returns a status, even if the objects have invalid content") {
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

void end_pod_at(json& pod, int second) {
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = format_time(second_of(second));
}

}  // namespace

TEST_CASE("the status of a sweep quotes the trial that failed first") {
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

TEST_CASE("the phase of an ended sweep follows from the states of its trials") {
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

TEST_CASE("a sweep of several Jobs starts with its first Job, and ends with its last Job") {
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

TEST_CASE("a sweep without a running trial is in the phase `scheduling` or `starting`, with the reason") {
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

TEST_CASE("if mlk has searched twice for a missing Job, the status of the sweep says that the Job is gone") {
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

TEST_CASE("to_json() writes the phase, times, counts and best trial of a sweep") {
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
