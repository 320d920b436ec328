// Tests that a trained run stays trained, and that a final failure is not shown as if it were tried again.
#include <doctest/doctest.h>

#include "cli/run/state/record.h"
#include "tests/unit/run/fixture.h"

TEST_SUITE_BEGIN("run/state/trained");

namespace mlk {
namespace {

using nlohmann::json;
using test::Fixture;
using test::load;

json& worker_job(Fixture& fixture) {
  for (json& job : fixture.objects.jobs) {
    if (job["metadata"]["labels"]["mlk.dev/role"] == "worker") return job;
  }
  FAIL("the fixture has no Job of workers");
  return fixture.objects.jobs.front();
}

json condition(const char* type, const char* reason) {
  return {{"type", type},
          {"status", "True"},
          {"reason", reason},
          {"message", reason},
          {"lastTransitionTime", "2026-11-21T08:03:40Z"}};
}

void mark_as_training(Fixture& fixture) {
  worker_job(fixture)["metadata"]["annotations"]["mlk.dev/trains"] = "true";
}

TEST_CASE("a training run has succeeded if one rank ended well") {
  const json nothing = json::array();
  for (const json& conditions :
       {nothing, json{condition("Suspended", "JobSuspended")},
        json{condition("FailureTarget", "FailedIndexes")}, json{condition("Failed", "FailedIndexes")},
        json{condition("Failed", "MaxFailedIndexesExceeded")}, json{condition("Failed", "PodFailurePolicy")},
        json{condition("Failed", "DeadlineExceeded")}, json{condition("Failed", "BackoffLimitExceeded")}}) {
    CAPTURE(conditions.dump());
    Fixture fixture = load("failed_exit_code");  // rank 1 of 3 has no tries left; the run needs all ranks
    mark_as_training(fixture);
    worker_job(fixture)["status"]["conditions"] = conditions;
    CHECK(fixture.observed().phase != Phase::succeeded);
    worker_job(fixture)["status"]["completedIndexes"] = "2";
    const RunStatus status = fixture.observed();
    CHECK(status.phase == Phase::succeeded);
    CHECK(status.why.empty());
    CHECK(exit_code(status) == ExitCode::ok);
    CHECK_FALSE(status.first_failure);
    // The end of a program that is not mlk's own says nothing about other ranks, so one good rank is not
    // enough.
    worker_job(fixture)["metadata"]["annotations"].erase("mlk.dev/trains");
    CHECK(fixture.observed().phase != Phase::succeeded);
  }
}

TEST_CASE("a training run has succeeded if it was stopped after a rank had ended well") {
  Fixture fixture = load("stopped");
  mark_as_training(fixture);
  CHECK(fixture.observed().phase == Phase::stopped);
  worker_job(fixture)["status"]["completedIndexes"] = "0";
  CHECK(fixture.observed().phase == Phase::succeeded);
}

TEST_CASE("a training run has succeeded if a rank has reported a result that contains `done`") {
  Fixture fixture = load("failed_exit_code");
  mark_as_training(fixture);
  for (json& pod : fixture.objects.pods) {
    auto& state = pod["status"]["containerStatuses"][0]["state"];
    if (state.contains("terminated"))
      state["terminated"]["message"] = R"({"schema":1,"step":40,"metrics":{"accuracy":0.98},"done":true})";
  }
  const RunStatus status = fixture.observed();
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.result["metrics"]["accuracy"] == 0.98);
  CHECK(status.ended);
  worker_job(fixture)["metadata"].erase("annotations");  // any program may write such a result
  CHECK(fixture.observed().phase == Phase::failed);
}

TEST_CASE("if a run is trained, the reason of a failed rank names no further try") {
  Fixture fixture = load("running_with_a_failed_rank");
  mark_as_training(fixture);
  worker_job(fixture)["status"]["completedIndexes"] = "0";
  worker_job(fixture)["status"]["failedIndexes"] = "";
  const RunStatus status = fixture.observed();
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.ranks.at(0).state == "Succeeded");
  CHECK(status.ranks.at(1).state == "Failed");
  CHECK(status.ranks.at(1).reason == "exit code 70 on node n1");
  CHECK(status.ranks.at(2).state == "Running");
}

TEST_CASE("if a run has succeeded, a rank whose Job was suspended counts as removed, not as failed") {
  for (const char* role : {"worker", "server"}) {
    CAPTURE(role);
    Fixture fixture = load("succeeded");
    mark_as_training(fixture);
    worker_job(fixture)["status"] = {{"completedIndexes", "0"}};
    for (json& job : fixture.objects.jobs) job["spec"]["suspend"] = true;
    for (json& pod : fixture.objects.pods) {
      const bool last = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "1";
      if (pod["metadata"]["labels"]["mlk.dev/role"] != role || (role == std::string("worker") && !last))
        continue;
      pod["metadata"]["deletionTimestamp"] = format_time(fixture.now);
      pod["status"] = {{"phase", "Failed"}};
    }
    bool found = false;
    for (const RankStatus& rank : fixture.observed().ranks) {
      if (rank.role != role || rank.state == "Succeeded") continue;
      found = true;
      CHECK(rank.state == "Missing");
      CHECK(rank.reason == "removed by its Job, which had succeeded");
    }
    CHECK(found);
  }
}

TEST_CASE("if a rank was lost and came back before its run was stopped, it is shown as Stopped") {
  Fixture fixture = load("deleted_pod");
  json& lost = fixture.objects.pods[1];
  lost["metadata"].erase("deletionTimestamp");
  lost["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 137;
  worker_job(fixture)["spec"]["suspend"] = true;
  worker_job(fixture)["status"].erase("startTime");
  fixture.objects.pods.erase(fixture.objects.pods.begin());  // the pod that ran until the stop is gone
  fixture.objects.owner["metadata"]["annotations"]["mlk.dev/stopped"] = format_time(fixture.now);
  const RunStatus status = fixture.observed();
  CHECK(status.phase == Phase::stopped);
  for (const RankStatus& rank : status.ranks) {
    CHECK(rank.state == "Stopped");
    CHECK(rank.reason.empty());
  }
  REQUIRE(status.last_failure);
  CHECK_FALSE(status.last_failure->next);
}

TEST_CASE("if a rank's exit code makes the Job fail, the rank is shown as failed before the Job reports it") {
  Fixture fixture = load("deleted_pod");
  json& pod = fixture.objects.pods[1];
  pod["metadata"].erase("deletionTimestamp");
  json& exit_code = pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
  exit_code = 3;
  CHECK(fixture.observed().phase == Phase::restarting);
  exit_code = 65;
  const auto check_failing = [&] {
    const RunStatus status = fixture.observed();
    CHECK(status.phase == Phase::running);
    CHECK(status.why.starts_with("failing: worker/1: exit code " + exit_code.dump()));
    CHECK(status.why.find("try") == std::string::npos);
    REQUIRE(status.last_failure);
    CHECK_FALSE(status.last_failure->next);
    CHECK(status.last_failure->attempts == 1);
    CHECK(status.ranks.at(1).state == "Failed");
  };
  check_failing();

  // The first matching rule decides: the rule for disruptions comes before the rule for exit codes.
  pod["status"]["conditions"].push_back(
      {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}});
  CHECK(fixture.observed().phase == Phase::restarting);
  pod["status"]["conditions"] = json::array();

  json& codes = worker_job(fixture)["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"];
  codes = {{"operator", "NotIn"}, {"values", {65}}};
  CHECK(fixture.observed().phase == Phase::restarting);
  exit_code = 4;
  check_failing();
  // An end before the run was stopped and resumed does not count any more.
  worker_job(fixture)["status"]["startTime"] = format_time(fixture.now);
  CHECK(fixture.observed().why.find("failing") == std::string::npos);
}

}  // namespace
}  // namespace mlk
