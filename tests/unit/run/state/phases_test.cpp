// Tests the phase of a run from a few plain objects. Each check changes one value.
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/labels.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/state/phases");

namespace mlk {
namespace {

using json = nlohmann::json;

using test::now;
using test::Run;

TEST_CASE("a running run is shown with its name, its start and all of its ranks") {
  const RunStatus status = Run().observed();
  CHECK(status.run == "r");
  CHECK(status.name == "exp");
  CHECK(status.mode == "ps");
  CHECK(status.phase == Phase::running);
  CHECK(status.why.empty());
  CHECK(status.created == parse_time("2026-01-03T11:00:00Z"));
  CHECK(status.started == parse_time("2026-01-03T11:00:02Z"));
  CHECK_FALSE(status.ended);
  CHECK(status.restarts == 0);
  CHECK_FALSE(status.first_failure);
  CHECK_FALSE(status.last_failure);
  REQUIRE(status.ranks.size() == 4);
  for (int rank = 0; rank < 4; ++rank) {
    const RankStatus& one = status.ranks.at(static_cast<std::size_t>(rank));
    CHECK(one.role == (rank < 3 ? "worker" : "server"));
    CHECK(one.rank == rank % 3);
    CHECK(one.state == "Running");
    CHECK(one.node == "n1");
    CHECK(one.pod == "r-" + one.role + "-" + std::to_string(one.rank) + "-" + std::to_string(rank));
    CHECK(one.reason.empty());
    CHECK(one.since == parse_time("2026-01-03T11:00:02Z"));
  }
}

TEST_CASE("a run without an owner gets its name from its Jobs") {
  Run run;
  run.objects.owner = nullptr;
  CHECK(run.observed().run == "r");
}

TEST_CASE("the phase depends on the needed ranks that do not run") {
  Run run;
  run.pending(run.pod(1));
  CHECK(run.phase() == "Starting");
  CHECK(run.state(1) == "Pending");
  CHECK(run.observed().ranks.at(1).since == parse_time("2026-01-03T11:00:01Z"));
  run.pending(run.pod(2), false);
  CHECK(run.phase() == "Scheduling");
  run.fail(run.pod(0), 1);
  CHECK(run.phase() == "Restarting");
  // A worker that the run does not need does not change the phase, but the needed server does.
  run = Run();
  run.job()["spec"]["maxFailedIndexes"] = 1;
  run.pending(run.pod(1));
  CHECK(run.phase() == "Running");
  run.pending(run.server());
  CHECK(run.phase() == "Starting");
}

TEST_CASE("a rank without a pod is missing") {
  Run run;
  run.objects.pods.clear();
  CHECK(run.phase() == "Scheduling");
  CHECK(run.why() == "the cluster has not made its pods yet");
  CHECK(run.state(0) == "Missing");
  CHECK_FALSE(run.observed().ranks.at(0).since);
  CHECK_FALSE(run.observed().started);
}

TEST_CASE(
    "the restarts of a rank are the number of its earlier pods, or the Job controller's count if that is "
    "larger") {
  Run run;
  run.fail(run.pod(1), 1);
  run.pending(run.add_pod("worker", 1, "2026-01-03T11:59:58Z"));
  CHECK(run.phase() == "Restarting");
  CHECK(run.state(1) == "Pending");
  CHECK(run.observed().restarts == 1);
  CHECK(run.observed().ranks.at(1).restarts == 1);
  CHECK(run.why() == "worker/1: restarting after exit code 1");
  run.objects.pods.back()["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "2";
  CHECK(run.observed().restarts == 2);
  CHECK(run.why() == "worker/1: restarting after exit code 1 (try 3 of 4)");
  run.objects.pods.erase(run.objects.pods.begin() + 1);
  CHECK(run.why() == "worker/1: restarting (try 3 of 4)");
  run.objects.pods.back()["status"]["phase"] = "Running";
  CHECK(run.phase() == "Running");
  CHECK(run.observed().restarts == 2);
}

TEST_CASE("a pod is ignored if it has ended and belongs to an earlier start of its Job") {
  Run run;
  run.fail(run.pod(1), 1, "2026-01-03T11:29:59Z");
  run.job()["status"]["startTime"] = "2026-01-03T11:30:00Z";
  CHECK_FALSE(run.observed().last_failure);
  CHECK(run.state(1) == "Missing");
  CHECK(run.state(0) == "Running");
  // A pod that the stop had deleted may end after the run was resumed.
  run.fail(run.pod(1), 143, "2026-01-03T11:30:05Z");
  run.pod(1)["metadata"]["deletionTimestamp"] = "2026-01-03T11:30:20Z";
  run.pod(1)["metadata"]["deletionGracePeriodSeconds"] = 30;
  CHECK_FALSE(run.observed().last_failure);
  CHECK(run.state(1) == "Missing");
}

TEST_CASE("a run shows at most two causes, and counts the others") {
  Run run;
  const auto waits = [&](json& pod, const char* reason) {
    run.pending(pod);
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", {{"waiting", {{"reason", reason}, {"message", "so it is"}}}}}}};
  };
  waits(run.pod(0), "CreateContainerError");
  waits(run.pod(1), "ErrImagePull");
  waits(run.pod(2), "ErrImagePull");
  CHECK(run.why() ==
        "worker/0: the container cannot be made: so it is; worker/1-2: image image:1 cannot be pulled: so it "
        "is");
  run.pod(2)["status"]["containerStatuses"][0]["state"]["waiting"]["message"] = "another";
  CHECK(run.why().ends_with("; and 1 more"));
  // The run does not need all workers, but it needs the server, so the failure of the server is shown first.
  run = Run();
  run.job()["spec"]["maxFailedIndexes"] = 2;
  waits(run.pod(0), "InvalidImageName");
  run.fail(run.server(), 1);
  CHECK(run.why().starts_with("server/0: exit code 1"));
  CHECK(run.observed().cannot_start);
  CHECK(run.observed().phase == Phase::restarting);
}

TEST_CASE("a failed rank is shown with its failure and the time of the next try") {
  Run run;
  run.fail(run.pod(1), 3);
  CHECK(run.phase() == "Restarting");
  CHECK(run.state(1) == "Failed");
  CHECK(run.why() == "worker/1: exit code 3 (try 1 of 4, next in 5s)");
  const RankStatus rank = run.observed().ranks.at(1);
  CHECK(rank.reason == "exit code 3 (try 1 of 4, next in 5s)");
  CHECK(rank.since == parse_time("2026-01-03T11:59:55Z"));
  run.job()["spec"]["maxFailedIndexes"] = 1;
  run.job()["status"]["failedIndexes"] = "1";
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "worker/1: failed for good: exit code 3 (try 1 of 4)");
}

TEST_CASE("each line of the table of phases overrides the lines below it") {
  Run run;
  CHECK(run.phase() == "Running");
  run.condition("SuccessCriteriaMet");
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "it is ending");
  run.job()["spec"]["suspend"] = true;
  CHECK(run.phase() == "Queued");
  CHECK(run.why() == "its Job is suspended");
  run.job()["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "research";
  CHECK(run.why() == "waits in queue research");
  run.job()["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:00Z";
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "it is being deleted");
  run.objects.owner["metadata"]["annotations"]["mlk.dev/roles"] = R"({"worker":3,"server":1,"evaluator":1})";
  CHECK(run.phase() == "Incomplete");
  CHECK(run.why() ==
        "submit was cut off before the cluster had all of it; submit the same file again to complete it");
  run.stop();
  CHECK(run.phase() == "Stopped");
  CHECK(run.why() == "stopping: 4 pods are still ending");
  for (int rank = 0; rank < 3; ++rank) run.fail(run.pod(rank), 143);
  CHECK(run.phase() == "Succeeded");  // the Job has reported that it will end, and has no pod left
  run.job()["status"]["conditions"][0]["type"] = "FailureTarget";
  CHECK(run.phase() == "Failed");
  run.condition("Failed", "FailedIndexes");
  CHECK(run.phase() == "Failed");
  run.job()["status"]["completedIndexes"] = "0-2";
  CHECK(run.phase() == "Succeeded");
}

TEST_CASE("a run that is being deleted does not count as cut off") {
  Run run;
  run.objects.jobs.pop_back();
  run.objects.pods.pop_back();  // a Job that does not exist yet has made no pods
  CHECK(run.phase() == "Incomplete");
  CHECK(run.observed(*parse_time("2026-01-03T11:00:59Z")).why == "its objects are being created");
  CHECK(run.observed(*parse_time("2026-01-03T11:01:00Z")).why.starts_with("submit was cut off"));
  run.objects.owner["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:00Z";
  CHECK(run.why() == "it is being deleted");
  run = Run();
  run.objects.owner["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:00Z";
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "it is being deleted");
  run.objects.jobs.clear();
  run.objects.owner["metadata"].erase("deletionTimestamp");
  run.objects.owner["metadata"]["annotations"].erase("mlk.dev/roles");
  CHECK(run.phase() == "Incomplete");  // the run has no Job
}

TEST_CASE("a stopped run shows how many of its pods are still ending") {
  Run run;
  run.stop();
  for (json* pod : {&run.pod(0), &run.pod(1), &run.server()}) run.fail(*pod, 143);
  CHECK(run.why() == "stopping: 1 pod is still ending");
  run.finish(run.pod(2));
  CHECK(run.why().empty());
  CHECK(run.observed().ended == parse_time("2026-01-03T11:30:00Z"));
  CHECK(run.state(0) == "Stopped");
  CHECK(run.state(2) == "Succeeded");
  run.objects.owner["metadata"]["annotations"][annotations::stopped] = "yesterday";
  CHECK(run.phase() == "Stopped");
  CHECK(run.observed().ended == now);
}

TEST_CASE("a run no longer counts as stopped if another program resumes its deciding Job") {
  Run run;
  run.stop();
  const auto suspend = [&](const char* role, bool suspended) {
    run.job(role)["metadata"]["annotations"][annotations::suspended] = "true";
    run.job(role)["spec"]["suspend"] = suspended;
  };
  suspend("worker", true);
  suspend("server", false);  // this Job does not decide
  CHECK(run.phase() == "Stopped");
  suspend("worker", false);
  CHECK(run.phase() == "Running");
  CHECK(run.why().empty());
  CHECK_FALSE(run.observed().ended);
  run.pending(run.pod(0));
  CHECK(run.phase() == "Starting");
  // When mlk itself resumes a Job, it removes the annotation and spec.suspend in one request, and the mark of
  // the owner after that.
  run.job()["metadata"].erase("annotations");
  CHECK(run.phase() == "Stopped");
}

TEST_CASE("a rank does not count as a failure if a failing Job ended it") {
  Run run;
  run.condition("FailureTarget", "FailedIndexes");
  run.fail(run.pod(1), 3, "2026-01-03T11:57:00Z");
  run.job()["status"]["failedIndexes"] = "1";
  run.fail(run.pod(0), 137, "2026-01-03T11:56:00Z");
  run.pod(0)["metadata"]["deletionTimestamp"] = "2026-01-03T11:58:00Z";
  CHECK(run.phase() == "Running");  // worker 2 has not ended
  CHECK(run.why() == "failing: worker/1: exit code 3 (4 of 4 tries failed)");
  const RunStatus status = run.observed();
  REQUIRE(status.first_failure);
  CHECK(status.first_failure->rank == 1);
  REQUIRE(status.last_failure);
  CHECK(status.last_failure->rank == 1);
  CHECK(status.ranks.at(1).reason == "exit code 3");
  CHECK(status.ranks.at(0).state == "Failed");
}

TEST_CASE("if a run has failed at its time limit, its reason names this limit") {
  Run run;
  run.condition("Failed", "DeadlineExceeded");
  CHECK(run.why() == "the time limit passed");
  run.job()["spec"]["activeDeadlineSeconds"] = 90;
  CHECK(run.why() == "the time limit of 1m30s passed");
  run.fail(run.pod(1), 3);
  CHECK_FALSE(run.observed().first_failure);
}

TEST_CASE("if a Job failed without a failed pod, it is shown with its own message") {
  Run run;
  run.condition("Failed", "Because");
  CHECK(run.why() == "in words");
  run.job()["status"]["conditions"][0]["message"] = "";
  CHECK(run.why() == "Because");
  run.job()["status"]["conditions"][0]["message"] = "a\x1b[1m";
  CHECK(run.why() == "a?[1m");
}

TEST_CASE("the cause of a failed run is a rank whose own failures used up its tries") {
  Run run;
  run.condition("Failed", "FailedIndexes");
  run.job()["status"]["failedIndexes"] = "0-1";
  run.fail(run.pod(2), 5, "2026-01-03T11:50:00Z");  // the run recovered
  run.fail(run.pod(0), 75, "2026-01-03T11:51:00Z");
  run.fail(run.pod(1), 3, "2026-01-03T11:52:00Z");
  const auto first = [&] { return run.observed().first_failure.value_or(Failure{}).rank; };
  CHECK(first() == 1);
  CHECK(run.why() == "worker/1: exit code 3 (4 of 4 tries failed)");
  // Disruptions do not count as tries, so for an exhausted rank its own failures come first.
  run.pod(1)["status"]["conditions"] = {
      {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "Drained"}}};
  CHECK(first() == 1);
  CHECK(run.why() == "worker/1: disrupted: Drained");
  run.fail(run.pod(0), 9, "2026-01-03T11:53:00Z");
  CHECK(first() == 0);
  // No rank is exhausted: the earliest failure is the cause.
  run.job()["status"]["failedIndexes"] = "";
  CHECK(first() == 2);
  CHECK(run.why() == "worker/2: exit code 5");
}

TEST_CASE("if the failure policy names a pod, the cause is the first pod with the same exit code") {
  Run run;
  run.condition("Failed", "PodFailurePolicy");
  run.job()["status"]["failedIndexes"] = "0";
  run.fail(run.pod(0), 3, "2026-01-03T11:50:00Z");
  run.fail(run.pod(1), 66, "2026-01-03T11:52:00Z");
  run.fail(run.pod(2), 66, "2026-01-03T11:51:00Z");
  run.job()["status"]["conditions"][0]["message"] =
      "Container main for pod ns/r-worker-1-1 failed with exit code 66";
  const RunStatus status = run.observed();
  REQUIRE(status.first_failure);
  CHECK(status.first_failure->rank == 2);
  CHECK(status.why == "worker/2: exit code 66");
  run.job()["status"]["conditions"][0]["message"] = "Container main for pod ns/r-worker-1-12 failed";
  CHECK(run.observed().first_failure->rank == 0);
}

TEST_CASE("of two failures in the same second, the one that can have caused the other comes first") {
  Run run;
  const auto order = [&](int first_code, int second_code) {
    run.fail(run.pod(0), first_code);
    run.fail(run.pod(1), second_code);
    return std::pair(run.observed().first_failure->rank, run.observed().last_failure->rank);
  };
  CHECK(order(1, 1) == std::pair(0, 1));
  CHECK(order(75, 1) == std::pair(1, 0));
  CHECK(order(143, 1) == std::pair(1, 0));
  CHECK(order(137, 1) == std::pair(1, 0));
  CHECK(order(134, 1) == std::pair(1, 0));  // libraries abort a program that has lost a peer
  CHECK(order(134, 139) == std::pair(1, 0));
  CHECK(order(134, 137) == std::pair(0, 1));
  CHECK(order(75, 143) == std::pair(1, 0));
  run.fail(run.pod(0), 75, "2026-01-03T11:59:54Z");
  CHECK(run.observed().first_failure->rank == 0);
}

TEST_CASE("a rank on a lost node is missing, and counts as failed if its pod is being deleted") {
  Run run;
  run.pod(1)["status"]["reason"] = "NodeLost";
  CHECK(run.phase() == "Restarting");
  CHECK(run.state(1) == "Missing");
  CHECK_FALSE(run.observed().first_failure);
  run.pod(1)["metadata"]["deletionTimestamp"] = "2026-01-03T11:59:00Z";
  REQUIRE(run.observed().first_failure);
  CHECK(run.observed().first_failure->reason == "node n1 is lost");
  CHECK(run.observed().first_failure->disruption);
}

TEST_CASE(
    "if a Job is ending, has ended or is suspended, the reason of a rank without a pod says that its pod is "
    "gone") {
  Run run;
  run.pod(1)["metadata"]["deletionTimestamp"] = "2026-01-03T11:59:00Z";
  CHECK(run.observed().ranks.at(1).reason == "it is ending");
  CHECK(run.state(1) == "Running");
  run.objects.pods.erase(run.objects.pods.begin() + 1);
  CHECK(run.observed().ranks.at(1).reason.empty());
  run.condition("FailureTarget");
  CHECK(run.observed().ranks.at(1).reason == "its pod is gone");
  run.job()["status"].erase("conditions");
  run.job()["spec"]["suspend"] = true;
  CHECK(run.observed().ranks.at(1).reason == "its pod is gone");
  run.job()["spec"]["suspend"] = false;
  run.condition("Failed");
  CHECK(run.observed().ranks.at(1).reason == "its pod is gone");
}

TEST_CASE("the start of a run is the start of its first pod, or else of its ended Job") {
  Run run;
  run.fail(run.pod(2), 1);
  run.pod(2)["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"] = "2026-01-03T11:00:01Z";
  CHECK(run.observed().started == parse_time("2026-01-03T11:00:01Z"));
  run.objects.pods.clear();
  CHECK_FALSE(run.observed().started);
  run.condition("Failed");
  CHECK(run.observed().started == parse_time("2026-01-03T11:00:00Z"));
  CHECK(run.observed().ended == parse_time("2026-01-03T11:58:00Z"));
}

TEST_CASE("a run is shown with the steps, tags, note and experiment that were submitted") {
  Run run;
  run.objects.owner["data"]["experiment"] = R"({"train":{"steps":300}})";
  json& annotations = run.objects.owner["metadata"]["annotations"];
  annotations[annotations::tags] = R"(["paper","team=vision"])";
  annotations[annotations::note] = "as agreed";
  annotations[annotations::steps] = "70";
  const RunStatus status = run.observed();
  CHECK(status.steps == 300);
  CHECK(status.tags == std::vector<std::string>{"paper", "team=vision"});
  CHECK(status.note == "as agreed");
  CHECK(status.experiment["train"]["steps"] == 300);
  run.objects.owner.erase("data");
  CHECK(run.observed().steps == 70);
  CHECK(run.observed().experiment.is_null());
  annotations.erase(annotations::steps);
  // With epochs, the program has counted the steps.
  run.finish(run.pod(0));
  run.pod(0)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] =
      R"({"schema":1,"step":40,"steps":80,"checkpoint":30})";
  CHECK(run.observed().steps == 80);
  CHECK(run.observed().last_checkpoint == "step 30");
  run.pod(0)["status"]["containerStatuses"][0]["state"]["terminated"]["message"] =
      R"({"schema":1,"step":40,"checkpoint":"in \u001b its own words"})";
  CHECK(run.observed().last_checkpoint == "in ? its own words");
}

TEST_CASE("after the loss of a rank, a run is restarting if any needed rank does not run") {
  Run run;
  run.pod(0)["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "1";
  CHECK(run.phase() == "Running");
  run.pending(run.pod(1));
  CHECK(run.phase() == "Restarting");
}

TEST_CASE("a run is shown as running even if a rank of a non-deciding Job has failed for good") {
  Run run;
  run.fail(run.server(), 9);
  CHECK(run.phase() == "Restarting");
  run.condition("Failed", "FailedIndexes", "server");
  run.job("server")["status"]["failedIndexes"] = "0";
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "server/0: exit code 9");
}

}  // namespace
}  // namespace mlk
