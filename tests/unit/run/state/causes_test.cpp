// Tests which of several facts about a run is shown: causes, ends that are not failures, records.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/labels.h"
#include "cli/run/facts/last_words.h"
#include "cli/run/state/record.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/state/causes");

namespace mlk {
namespace {

using json = nlohmann::json;
using test::now;
using test::Run;

constexpr char deleted_at[] = "2026-01-03T11:58:30Z";

void mark_deleted(json& object) { object["metadata"]["deletionTimestamp"] = deleted_at; }

TEST_CASE("a rank that is tried again is listed before a lost node") {
  Run run;
  run.job()["status"]["failedIndexes"] = "0";
  run.job()["spec"]["maxFailedIndexes"] = 3;
  run.fail(run.pod(0), 3);
  run.pod(1)["status"]["reason"] = "NodeLost";
  CHECK(run.phase() == "Running");
  const std::string lost = "worker/1: node n1 is lost; a replacement starts when the cluster gives it up";
  CHECK(run.why() == lost + "; worker/0: failed for good: exit code 3 (try 1 of 4)");
  run.fail(run.pod(2), 4);
  CHECK(run.why() == "worker/2: exit code 4 (try 1 of 4, next in 5s); " + lost + "; and 1 more");
  CHECK(run.state(0) == "Failed");
  CHECK(run.state(1) == "Missing");
  CHECK(run.state(2) == "Failed");
}

TEST_CASE("a rank that failed for good is listed before a rank that cannot be scheduled") {
  Run run;
  run.job()["spec"]["maxFailedIndexes"] = 3;
  run.job()["status"]["failedIndexes"] = "0";
  run.fail(run.pod(0), 3);
  run.pending(run.pod(1), false);
  run.pod(1)["status"]["conditions"] = {
      {{"type", "PodScheduled"}, {"status", "False"}, {"message", "no room"}}};
  run.fail(run.pod(2), 4);
  run.pending(run.add_pod("worker", 2, "2026-01-03T11:59:58Z"));
  CHECK(run.why() ==
        "worker/0: failed for good: exit code 3 (try 1 of 4); worker/1: cannot be scheduled: no room; and 1 "
        "more");
  const RunStatus status = run.observed();
  CHECK(status.ranks.at(2).reason == "restarting after exit code 4");
  CHECK(status.ranks.at(2).restarts == 1);
  CHECK(status.ranks.at(2).state == "Pending");
  CHECK(status.restarts == 1);
  CHECK_FALSE(status.cannot_start);
}

TEST_CASE("a failure in an ended or ending Job is shown without the time of a next try") {
  for (const char* type : {"Failed", "FailureTarget"}) {
    Run run;
    run.condition(type, "BackoffLimitExceeded");
    run.fail(run.pod(1), 3);
    CHECK(run.observed().ranks.at(1).reason == "exit code 3");
    run.job()["status"]["failedIndexes"] = "1";
    CHECK(run.observed().ranks.at(1).reason == "exit code 3");
  }
  Run run;
  run.fail(run.pod(1), 3);
  CHECK(run.observed().ranks.at(1).reason == "exit code 3 (try 1 of 4, next in 5s)");
  run.job()["status"]["failedIndexes"] = "1";
  CHECK(run.observed().ranks.at(1).reason == "failed for good: exit code 3 (try 1 of 4)");
}

TEST_CASE("a pod does not count as failed if an ending, suspended or deleted Job has removed it") {
  const auto failure_of = [](const std::function<void(Run&)>& change) {
    Run run;
    run.fail(run.pod(1), 137);
    mark_deleted(run.pod(1));
    change(run);
    const RunStatus status = run.observed();
    CHECK(status.first_failure.has_value() == status.last_failure.has_value());
    return status.first_failure ? status.first_failure->reason : "none";
  };
  CHECK(failure_of([](Run&) {}) == "its pod was deleted");
  CHECK(failure_of([](Run& run) { run.condition("FailureTarget"); }) == "none");
  CHECK(failure_of([](Run& run) { run.condition("Failed"); }) == "none");
  CHECK(failure_of([](Run& run) { run.job()["spec"]["suspend"] = true; }) == "none");
  CHECK(failure_of([](Run& run) { mark_deleted(run.job()); }) == "none");
  CHECK(failure_of([](Run& run) { run.stop(); }) == "none");
  // An end that was not caused by the Job controller is a failure, also when the run ends.
  CHECK(failure_of([](Run& run) {
          run.condition("FailureTarget");
          run.pod(1)["status"]["conditions"] = {
              {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}}};
        }) == "evicted by a node drain or an administrator");
  CHECK(failure_of([](Run& run) {
          run.condition("FailureTarget");
          run.pod(1)["metadata"].erase("deletionTimestamp");
        }) == "killed by signal 9 (SIGKILL)");
}

TEST_CASE("a pod that was deleted before its Job decided to fail is the cause of the failure") {
  Run run;
  run.job()["spec"]["backoffLimitPerIndex"] = 0;
  run.fail(run.pod(1), 143, "2026-01-03T11:57:59Z");
  json& metadata = run.pod(1)["metadata"];
  metadata["deletionTimestamp"] = "2026-01-03T11:57:50Z";
  metadata["deletionGracePeriodSeconds"] = 0;
  CHECK(run.phase() == "Running");  // the Job has not reported its failure yet
  CHECK(run.why() == "failing: worker/1: its pod was deleted");
  run.condition("FailureTarget", "FailedIndexes");
  CHECK(run.why() == "failing: worker/1: its pod was deleted");
  run.condition("Failed", "FailedIndexes");
  run.job()["status"]["conditions"][1]["lastTransitionTime"] = "2026-01-03T11:58:20Z";
  run.job()["status"]["failedIndexes"] = "1";
  const auto first = [&] { return run.observed().first_failure; };
  REQUIRE(first());
  CHECK(first()->reason == "its pod was deleted");
  CHECK(first()->disruption);
  CHECK(exit_code(run.observed()) == ExitCode::disrupted);
  CHECK(run.why() == "worker/1: its pod was deleted");
  run.stop();
  CHECK_FALSE(first());
  run.objects.owner["metadata"]["annotations"].erase(annotations::stopped);
  for (const char* deleted : {"2026-01-03T11:58:00Z", "2026-01-03T11:58:10Z"}) {
    metadata["deletionTimestamp"] = deleted;  // the Job had decided to fail, and ended the pod
    CHECK_FALSE(first());
  }
  // A program that had failed before its pod was deleted is no disruption.
  metadata["deletionTimestamp"] = "2026-01-03T11:57:59Z";
  run.fail(run.pod(1), 3, "2026-01-03T11:57:59Z");
  REQUIRE(first());
  CHECK_FALSE(first()->disruption);
}

TEST_CASE("a rank that blames a peer is not the cause if a peer failed at most two seconds later") {
  Run run;
  const auto says = [&](int rank, const char* message) {
    run.pod(rank)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = message;
  };
  run.fail(run.pod(0), 1);
  says(0, "RuntimeError: [pair.cc:545] Connection closed by peer [10.0.0.1]:5798");
  CHECK(run.observed().first_failure->rank == 0);
  run.fail(run.pod(1), 1);
  says(1, "ValueError: no data");
  CHECK(run.observed().first_failure->rank == 1);
  run.fail(run.pod(1), 1, "2026-01-03T11:59:56Z");
  CHECK(run.observed().first_failure->rank == 1);
  run.fail(run.pod(1), 1, "2026-01-03T11:59:58Z");  // too late to be the cause
  CHECK(run.observed().first_failure->rank == 0);

  // The pod was asked to end and spent time on a checkpoint, while its peers saw the end.
  run.fail(run.pod(2), 143, "2026-01-03T11:59:59Z");
  run.pod(2)["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:24Z";
  run.pod(2)["metadata"]["deletionGracePeriodSeconds"] = 30;
  CHECK(run.observed().first_failure->rank == 2);
  run.pod(2)["metadata"].erase("deletionTimestamp");
  run.pod(2)["status"]["conditions"] = {{{"type", "DisruptionTarget"},
                                         {"status", "True"},
                                         {"reason", "PreemptionByScheduler"},
                                         {"lastTransitionTime", "2026-01-03T11:59:55Z"}}};
  CHECK(run.observed().first_failure->reason == "preempted by a pod of higher priority");
}

TEST_CASE("a pod that failed before its Job deleted it is still the cause of the run's failure") {
  Run run;
  run.fail(run.pod(0), 1);
  run.pod(0)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = "Broken pipe";
  run.fail(run.pod(1), 1);
  run.condition("Failed", "FailedIndexes");
  run.job()["status"]["failedIndexes"] = "0";
  run.pod(1)["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:25Z";
  run.pod(1)["metadata"]["deletionGracePeriodSeconds"] = 30;
  CHECK(run.why() == "worker/1: exit code 1");
  run.pod(1)["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:24Z";
  CHECK(run.why() == "worker/0: exit code 1: Broken pipe (4 of 4 tries failed)");
}

TEST_CASE("the cause of a failed run is the peer, not the rank that lost the peer") {
  Run run;
  run.fail(run.pod(0), 1);
  run.pod(0)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = "Socket closed";
  run.condition("Failed", "FailedIndexes");
  run.job()["status"]["failedIndexes"] = "0";
  CHECK(run.observed().first_failure->rank == 0);
  run.fail(run.pod(1), 3, "2026-01-03T11:59:50Z");
  CHECK(run.observed().first_failure->rank == 1);
  CHECK(run.why() == "worker/1: exit code 3");
}

TEST_CASE("a running pod counts as failed if it is being deleted and its node is lost") {
  Run run;
  mark_deleted(run.pod(0));
  CHECK_FALSE(run.observed().first_failure);
  CHECK_FALSE(run.observed().last_failure);
  run.pod(1)["status"]["reason"] = "NodeLost";
  CHECK_FALSE(run.observed().first_failure);
  mark_deleted(run.pod(1));
  REQUIRE(run.observed().first_failure);
  CHECK(run.observed().first_failure->rank == 1);
}

TEST_CASE("a pod counts as missing, not as failed, if its Job succeeded and then removed it") {
  Run run;
  run.condition("SuccessCriteriaMet");
  run.fail(run.pod(1), 137);
  mark_deleted(run.pod(1));
  CHECK(run.state(1) == "Missing");
  CHECK(run.observed().ranks.at(1).reason == "removed by its Job, which had succeeded");
  run.pod(1)["status"]["conditions"] = {
      {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}}};
  CHECK(run.state(1) == "Failed");
  run.pod(1)["status"].erase("conditions");
  run.pod(1)["metadata"].erase("deletionTimestamp");
  CHECK(run.state(1) == "Failed");
}

TEST_CASE("the number of failed tries is shown for a rank that has used up its tries") {
  Run run;
  run.condition("Failed", "FailedIndexes");
  run.job()["status"]["failedIndexes"] = "0";
  run.fail(run.server(), 3);
  CHECK(run.why() == "server/0: exit code 3");  // a rank with the same number, but of another Job
  run.fail(run.pod(0), 4);
  CHECK(run.why() == "worker/0: exit code 4 (4 of 4 tries failed)");
  run.job()["spec"]["backoffLimitPerIndex"] = 1;
  CHECK(run.why() == "worker/0: exit code 4 (2 of 2 tries failed)");
  run.job()["spec"]["backoffLimitPerIndex"] = 0;
  CHECK(run.why() == "worker/0: exit code 4");
  run.job()["spec"]["backoffLimitPerIndex"] = 3;
  run.job()["status"]["conditions"][0]["reason"] = "PodFailurePolicy";
  CHECK(run.why() == "worker/0: exit code 4");  // the rank was not tried again
}

TEST_CASE("if the failure policy will fail a Job, the run is shown as failing before the Job reports this") {
  Run run;
  run.job()["spec"]["podFailurePolicy"]["rules"] = {
      R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [66]}})"_json};
  for (int rank = 0; rank < 3; ++rank) run.fail(run.pod(rank), 66);
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "failing: worker/0: exit code 66");
  run.condition("FailureTarget", "PodFailurePolicy");
  CHECK(run.phase() == "Failed");
  CHECK(run.why() == "worker/0: exit code 66");
  CHECK(run.observed().ended == parse_time("2026-01-03T11:58:00Z"));
}

TEST_CASE("if several ranks have the same exit code, the cause is the rank whose message names no peer") {
  for (const int code : {64, 65, 66, 67}) {
    CAPTURE(code);
    Run run;
    run.condition("Failed", "PodFailurePolicy");
    const std::string repeated = fmt::format("worker/1 ended with exit code {}", code);
    for (int rank = 0; rank < 3; ++rank) {
      run.fail(run.pod(rank), code);
      run.pod(rank)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = json{
          {"schema", 1},
          {"message", rank == 1 ? "diverged: the loss is not a number" : repeated}}.dump();
    }
    CHECK(run.why() == fmt::format("worker/1: exit code {}: diverged: the loss is not a number", code));
  }
  CHECK(repeats_a_peer("worker/1 ended with exit code 66"));
  CHECK(repeats_a_peer(" server/12 ended with exit code 64\n"));
  for (const char* message :
       {"", "worker/1 ended", "worker/x ended with exit code 1", "worker/1 ended with exit code ",
        "it/s worker/1 ended with exit code 66", "worker/1 ended with exit code 66 again", "diverged"}) {
    CAPTURE(message);
    CHECK_FALSE(repeats_a_peer(message));
  }
}

TEST_CASE("a run reports its deletion if its owner or its deciding Job is being deleted") {
  Run run;
  mark_deleted(run.job());
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "it is being deleted");
  run = Run();
  mark_deleted(run.job("server"));
  CHECK(run.why().empty());
  mark_deleted(run.objects.owner);
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "it is being deleted");
}

TEST_CASE("a run without any pod reports that the cluster has not made its pods yet") {
  Run run;
  run.objects.pods.clear();
  CHECK(run.phase() == "Scheduling");
  CHECK(run.why() == "the cluster has not made its pods yet");
  run.add_pod("worker", 0);
  CHECK(run.phase() == "Scheduling");
  CHECK(run.why().empty());
}

TEST_CASE("the newest checkpoint is shown even if the run has not ended") {
  Run run;
  run.objects.owner["data"]["experiment"] =
      R"({"train": {"steps": 90}, "checkpoint": {"volume": {"pvc": "claim"}}})";
  const std::string result = R"({"schema": 1, "step": 40, "checkpoint": 30})";
  run.fail(run.pod(0), 3);
  run.pod(0)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = result;
  const RunStatus status = run.observed();
  CHECK(status.result == json::parse(result));
  CHECK(status.result_at == parse_time("2026-01-03T11:59:55Z"));
  CHECK(status.last_checkpoint == "step 30");
  REQUIRE(status.checkpoint);
  CHECK(status.checkpoint->volume == json{{"pvc", "claim"}});
  CHECK(status.checkpoint->step == 30);
  CHECK(status.steps == 90);
  CHECK(status.experiment["train"]["steps"] == 90);
  // A run with epochs counts its steps itself.
  run.objects.owner["data"]["experiment"] = R"({"train": {"epochs": 2}})";
  run.pod(0)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] =
      R"({"schema": 1, "step": 40, "steps": 77, "checkpoint": "a\u001bb"})";
  CHECK(run.observed().steps == 77);
  CHECK_FALSE(run.observed().checkpoint);
  CHECK(run.observed().last_checkpoint == "a?b");
}

TEST_CASE("a rank that the record shows as running gets the present state of its pod") {
  Run run;
  run.condition("Complete");
  run.finish(run.pod(2));
  RunStatus earlier = run.observed();
  REQUIRE(earlier.phase == Phase::succeeded);
  earlier.ranks.at(2).state = "Running";
  earlier.ranks.at(3).state = "Running";
  earlier.ranks.at(3).node = "n7";
  earlier.ranks.at(1).state = "Running";
  earlier.ranks.at(1).restarts = 2;
  earlier.ranks.at(0).state = "Failed";
  earlier.why = "as it was";
  run.objects.owner.merge_patch(record_patch(earlier));
  run.objects.owner["metadata"]["annotations"]["mlk.dev/note"] = "a remark";
  run.objects.owner["metadata"]["annotations"]["mlk.dev/tags"] = R"(["a"])";
  run.objects.owner["metadata"]["annotations"]["mlk.dev/steps"] = "70";
  run.server()["spec"].erase("nodeName");
  run.server()["status"] = {{"phase", "Failed"}};
  const RunStatus status = run.observed();
  REQUIRE(status.ranks.size() == 4);
  const auto told = [&](std::size_t rank) {
    const RankStatus& one = status.ranks.at(rank);
    return one.role + " " + std::to_string(one.rank) + " " + one.state + " " + one.node + " " + one.pod;
  };
  CHECK(told(0) == "worker 0 Failed n1 ");   // as in the record
  CHECK(told(1) == "worker 1 Running n1 ");  // the counted pods are gone meanwhile
  CHECK(told(2) == "worker 2 Succeeded n1 r-worker-2-2");
  CHECK(told(3) == "server 0 Failed n7 r-server-0-3");  // only the record knows the node
  CHECK(status.why == "as it was");
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.note == "a remark");
  CHECK(status.tags == std::vector<std::string>{"a"});
  CHECK(status.steps == 70);
}

TEST_CASE("if the pods of a recorded run are gone, its ranks are shown with the recorded reasons") {
  Run run;
  run.condition("Complete");
  RunStatus earlier = run.observed();
  earlier.ranks.at(0).state = "Failed";
  earlier.ranks.at(0).reason = "exit code 3";
  earlier.ranks.at(0).since = parse_time("2026-01-03T11:00:01Z");
  run.objects.owner.merge_patch(record_patch(earlier));
  run.objects.pods.clear();
  const RankStatus rank = run.observed().ranks.at(0);
  CHECK(rank.reason == "exit code 3");
  CHECK(rank.since == parse_time("2026-01-03T11:00:01Z"));
}

TEST_CASE("the record of a stopped run supplies facts that the objects no longer show") {
  Run run;
  run.stop();
  RunStatus earlier = run.observed();
  earlier.started = parse_time("2026-01-03T10:00:00Z");
  earlier.restarts = 5;
  earlier.first_failure = test::failure(2, "first");
  earlier.last_failure = test::failure(1, "last");
  earlier.result = {{"schema", 1}, {"step", 9}, {"checkpoint", 8}};
  earlier.result_at = parse_time("2026-01-03T11:20:00Z");
  run.objects.owner.merge_patch(record_patch(earlier));
  RunStatus status = run.observed();
  CHECK(status.started == earlier.started);
  CHECK(status.restarts == 5);
  REQUIRE(status.first_failure);
  CHECK(status.first_failure->message == "first");
  REQUIRE(status.last_failure);
  CHECK(status.last_failure->message == "last");
  CHECK(status.result == earlier.result);
  CHECK(status.result_at == earlier.result_at);
  CHECK(status.last_checkpoint == "step 8");
  // The run was resumed, and fails.
  run.objects.owner["metadata"]["annotations"].erase(annotations::stopped);
  run.fail(run.pod(0), 3);
  status = run.observed();
  CHECK(status.first_failure->message == "first");
  CHECK(status.last_failure->rank == 0);
  run.condition("Failed", "FailedIndexes");
  CHECK(run.observed().first_failure->rank == 0);
}

}  // namespace
}  // namespace mlk
