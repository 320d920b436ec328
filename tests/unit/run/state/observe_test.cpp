// Tests the phase and the reason of runs from objects that were captured on a real cluster.
#include <algorithm>
#include <utility>

#include <doctest/doctest.h>

#include "cli/run/state/diagnosis.h"
#include "cli/run/state/record.h"
#include "tests/unit/run/fixture.h"

TEST_SUITE_BEGIN("run/state/observe");

namespace mlk {
namespace {

using test::Fixture;
using test::load;

struct Row {
  const char* fixture;
  Phase phase;
  bool cannot_start;
  const char* why;  // the complete reason
};

const char* const node_lost_worker =
    "worker/0: node n2 is lost; its ranks come back when the node returns, is deleted, or is tainted "
    "out-of-service";

const Row table[] = {
    {"incomplete", Phase::incomplete, false, "its objects are being created"},
    {"queued", Phase::queued, false, "waits in queue research"},
    {"stopped", Phase::stopped, false, ""},
    {"stopping", Phase::stopped, false, "stopping: 1 pod is still ending"},
    {"unschedulable", Phase::scheduling, false,
     "worker/0-1: cannot be scheduled: 0/2 nodes are available: 2 Insufficient cpu."},
    {"missing_claim", Phase::scheduling, false,
     "worker/0: cannot be scheduled: 0/2 nodes are available: persistentvolumeclaim \"absent\" not found. "
     "not found"},
    {"quota", Phase::scheduling, false,
     "worker/1-2: the quota of the namespace is used up: exceeded quota: small, requested: pods=1, used: "
     "pods=1, "
     "limited: pods=1"},
    {"missing_service_account", Phase::scheduling, true,
     "worker/0: the cluster refuses its pods: error looking up service account default/absent: "
     "serviceaccount "
     "\"absent\" not found"},
    {"image_cannot_be_pulled", Phase::starting, false,
     "worker/0: image localhost:1/none:1 cannot be pulled: failed to do request: Head "
     "\"http://localhost:1/v2/none/manifests/1\": dial tcp 127.0.0.1:1: connect: connection refused"},
    {"invalid_image_name", Phase::starting, true,
     "worker/0: invalid image name Bad_Image:1:2: invalid reference format: repository name "
     "(library/Bad_Image) must be "
     "lowercase"},
    {"missing_secret", Phase::starting, false,
     "worker/0: the container cannot be made: secret \"wandb\" not found"},
    {"missing_config_map_volume", Phase::starting, false,
     "worker/0: MountVolume.SetUp failed for volume \"v\" : configmap \"absent\" not found"},
    {"running", Phase::running, false, ""},
    {"running_with_a_failed_rank", Phase::running, false,
     "worker/1: failed for good: exit code 70 on node n1"},
    {"evicted_and_back", Phase::running, false, ""},
    {"ending", Phase::running, false, "failing: worker/2: exit code 66: loss is nan at step 7"},
    {"restarting", Phase::restarting, false,
     "worker/1: restarting after exit code 3: cannot open /data/x (try 2 of 2)"},
    {"evicted", Phase::restarting, false,
     "worker/0: evicted by a node drain or an administrator (next in 8s)"},
    {"preempted", Phase::restarting, false, "worker/0: preempted by a pod of higher priority (next in 9s)"},
    {"deleted_pod", Phase::restarting, false, "worker/1: its pod was deleted (next in 8s)"},
    {"succeeded", Phase::succeeded, false, ""},
    {"failed_exit_code", Phase::failed, false,
     "worker/1: exit code 3: cannot open /data/x (2 of 2 tries failed)"},
    {"failed_final_code", Phase::failed, false, "worker/2: exit code 66: loss is nan at step 7"},
    {"failed_signal", Phase::failed, false, "worker/0: killed by signal 9 (SIGKILL): Killed"},
    {"failed_oom", Phase::failed, false, "worker/0: out of memory: filling"},
    {"failed_program_not_found", Phase::failed, false,
     "worker/0: the program could not be started: \"/no/such/program\": stat /no/such/program: no such file "
     "or "
     "directory"},
    {"failed_deadline", Phase::failed, false, "the time limit of 4s passed"},
};

TEST_CASE("each recorded cluster state has the expected phase and reason") {
  for (const Row& row : table) {
    CAPTURE(row.fixture);
    const RunStatus status = load(row.fixture).observed();
    CHECK(to_string(status.phase) == to_string(row.phase));
    CHECK(status.why == row.why);
    CHECK(status.cannot_start == row.cannot_start);
  }
}

TEST_CASE("if Pod Security refuses a run, it cannot start, and its reason names the required settings") {
  const RunStatus status = load("pod_security").observed();
  CHECK(status.phase == Phase::scheduling);
  CHECK(status.cannot_start);
  CHECK(exit_code(status) == ExitCode::cannot_start);
  CHECK(status.why.find("violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false") !=
        std::string::npos);
}

TEST_CASE("a server on a lost node is replaced, and a worker waits for the node") {
  for (const char* name : {"node_not_ready", "node_lost"}) {
    Fixture fixture = load(name);
    if (std::string(name) == "node_not_ready") {
      // The event comes a moment after the condition. Before the event there is no sign that the node is
      // lost.
      CHECK(fixture.observed().phase == Phase::running);
      for (std::size_t i : {0, 1}) {
        fixture.objects.events.push_back(
            {{"type", "Warning"},
             {"reason", "NodeNotReady"},
             {"involvedObject", {{"uid", fixture.objects.pods[i]["metadata"]["uid"]}}}});
      }
    }
    const RunStatus status = fixture.observed();
    CHECK(status.phase == Phase::restarting);  // the only server is gone
    CHECK(status.why == "server/0: node n2 is lost; a replacement starts when the cluster gives it up; " +
                            std::string(node_lost_worker));
  }
  const RunStatus later = load("node_lost_later").observed();
  CHECK(
      later.why.starts_with("server/0: cannot be scheduled: "));  // the replacement, pinned to the lost node
  CHECK(later.why.ends_with(node_lost_worker));
  CHECK(later.restarts == 1);
  REQUIRE(later.first_failure);
  CHECK(later.first_failure->disruption);
  CHECK(later.first_failure->reason == "node n2 was lost");
}

TEST_CASE("after the loss of a node, a run is restarting only if too few ranks are left") {
  Fixture fixture = load("node_lost");
  std::erase_if(fixture.objects.jobs,
                [](const auto& job) { return job["metadata"]["name"] == "node-aaaaa-server"; });
  CHECK(fixture.observed().phase == Phase::running);  // the run needs one worker of two
  CHECK(fixture.observed().why == node_lost_worker);
  fixture.objects.jobs[0]["spec"]["maxFailedIndexes"] = 0;
  CHECK(fixture.observed().phase == Phase::restarting);
}

TEST_CASE("a run whose end is decided does not wait for the pods of a lost node") {
  Fixture fixture = load("node_lost");
  nlohmann::json& job = fixture.objects.jobs[1];
  REQUIRE(job["metadata"]["name"] == "node-aaaaa-worker");
  nlohmann::json& end = job["status"]["conditions"][0];
  end = {{"type", "SuccessCriteriaMet"},
         {"status", "True"},
         {"reason", "SuccessPolicy"},
         {"lastTransitionTime", "2026-01-02T03:04:05Z"}};
  CHECK(fixture.observed().phase == Phase::running);  // worker 1 has not ended, and its node answers
  for (auto& pod : fixture.objects.pods) {
    if (pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1")
      pod["status"]["phase"] = "Succeeded";
  }
  CHECK(fixture.observed().phase == Phase::succeeded);
  CHECK(fixture.observed().ended == parse_time("2026-01-02T03:04:05Z"));
  end["type"] = "FailureTarget";
  CHECK(fixture.observed().phase == Phase::failed);
}

TEST_CASE("a run without Jobs counts as cut off a minute after its owner was created") {
  Fixture fixture = load("incomplete");
  CHECK(fixture.observed().absence == Absence::not_yet);
  fixture.now += std::chrono::seconds(61);
  CHECK(fixture.observed().absence == Absence::cut_off);
  CHECK(fixture.observed().phase == Phase::incomplete);
  CHECK(fixture.observed().why ==
        "submit was cut off before the cluster had all of it; submit the same file again to complete it");
}

TEST_CASE("the last words of a failure are cut only between characters of UTF-8") {
  Fixture fixture = load("failed_exit_code");
  for (int length = 0; length < 4; ++length) {
    std::string bar(static_cast<std::size_t>(length), '-');
    while (bar.size() < 9000) bar += "\xe2\x96\x88";
    for (auto& pod : fixture.objects.pods)
      pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = bar;
    const RunStatus status = fixture.observed();
    CHECK_NOTHROW(to_json(status).dump());
    const nlohmann::json record = record_patch(status);
    CHECK(record.dump().find("\xef\xbf\xbd") == std::string::npos);  // no character had to be replaced
  }
}

TEST_CASE("a failure is shown with the number of its try and the time of the next try") {
  Fixture fixture = load("deleted_pod");
  auto& pod = fixture.objects.pods[1];
  pod["metadata"].erase("deletionTimestamp");
  auto& terminated = pod["status"]["containerStatuses"][0]["state"]["terminated"];
  terminated["exitCode"] = 3;
  terminated["message"] = "first\nlast words\n";
  RunStatus status = fixture.observed();
  REQUIRE(status.last_failure);
  CHECK(status.last_failure->attempt == 1);
  CHECK(status.last_failure->attempts == 2);
  CHECK(*status.last_failure->next == *status.last_failure->at + std::chrono::seconds(10));
  CHECK(status.why == "worker/1: exit code 3: last words (try 1 of 2, next in 8s)");
  // Each earlier failure doubles the delay, up to ten minutes.
  for (auto& job : fixture.objects.jobs) job["spec"]["backoffLimitPerIndex"] = 40;
  pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "2";
  status = fixture.observed();
  CHECK(*status.last_failure->next == *status.last_failure->at + std::chrono::seconds(40));
  pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "30";
  status = fixture.observed();
  CHECK(*status.last_failure->next == *status.last_failure->at + std::chrono::seconds(600));
}

TEST_CASE("restarts are taken from the Job controller's count, which includes pods that are gone") {
  const RunStatus status = load("evicted_and_back").observed();
  CHECK(status.restarts == 1);
  CHECK(status.ranks[0].restarts == 1);
  CHECK(status.ranks[1].restarts == 0);
}

TEST_CASE("the result comes from a rank that is done, or else from the rank with the largest step") {
  CHECK(load("running").observed().result.is_null());  // a running container has no termination message
  Fixture fixture = load("succeeded");
  CHECK(fixture.observed().result["step"] == 40);
  // A rank that is done counts, although another rank has a larger step but is not done.
  int number = 0;
  for (auto& pod : fixture.objects.pods) {
    auto& state = pod["status"]["containerStatuses"][0]["state"];
    if (!state.contains("terminated")) continue;
    state["terminated"]["message"] = number++ == 0 ? R"({"schema":1,"step":30,"checkpoint":25,"done":true})"
                                                   : R"({"schema":1,"step":90,"checkpoint":75,"done":false})";
  }
  CHECK(fixture.observed().result["step"] == 30);
  CHECK(fixture.observed().last_checkpoint == "step 25");
  for (auto& pod : fixture.objects.pods) {
    auto& state = pod["status"]["containerStatuses"][0]["state"];
    if (state.contains("terminated"))
      state["terminated"]["message"] = R"({"schema":1,"rank":1,"done":true,"message":""})";
  }
  CHECK(fixture.observed().result.is_null());
}

TEST_CASE("recorded restarts still count when the pods are gone") {
  Fixture fixture = load("stopped");
  RunStatus before = fixture.observed();
  before.restarts = 3;
  fixture.objects.owner["data"]["record"] = to_record(before).dump();
  CHECK(fixture.observed().restarts == 3);
  fixture = load("evicted_and_back");
  before.restarts = 0;
  fixture.objects.owner["data"]["record"] = to_record(before).dump();
  CHECK(fixture.observed().restarts == 1);
}

TEST_CASE("a run shows the newest warning even if an older one comes later in the list") {
  for (const bool reversed : {false, true}) {
    Fixture fixture = load("missing_service_account");
    nlohmann::json newer;
    for (auto& event : fixture.objects.events) {
      if (event["reason"] != "FailedCreate") continue;
      for (const char* time : {"lastTimestamp", "firstTimestamp"}) event[time] = "2026-11-21T08:00:00Z";
      event.erase("series");
      newer = event;
    }
    REQUIRE(newer.is_object());
    newer["lastTimestamp"] = "2026-11-21T09:00:00Z";
    newer["message"] = "Error creating: pods \"x\" is forbidden: the newer reason";
    fixture.objects.events.push_back(newer);
    if (reversed) std::reverse(fixture.objects.events.begin(), fixture.objects.events.end());
    CHECK(fixture.observed().why.find("the newer reason") != std::string::npos);
  }
}

TEST_CASE("a cause that several ranks share has the largest of their weights") {
  const auto cause = [](int weight, const char* role, int rank) {
    return Cause{weight, role == std::string("a") ? "same" : "other", false, role, {rank}};
  };
  const std::vector<Cause> merged = merge_causes({cause(10, "a", 1), cause(20, "b", 0), cause(30, "a", 0)});
  REQUIRE(merged.size() == 2);
  CHECK(merged[0].role == "a");
  CHECK(merged[0].weight == 30);
  CHECK(merged[0].ranks == std::vector<int>{0, 1});
}

TEST_CASE("step numbers larger than an int are read correctly") {
  Fixture fixture = load("succeeded");
  fixture.objects.owner["data"]["experiment"] = R"({"train":{"steps":2500000000}})";
  CHECK(fixture.observed().steps == 2500000000);
}

TEST_CASE("a refusal is not final if its cause is that the namespace is still new") {
  for (const char* message :
       {"Error creating: pods \"x\" is forbidden: error looking up service account a/default: serviceaccount "
        "\"default\" not found",
        "Error creating: pods \"x\" is forbidden: status unknown for quota: small, resources: pods"}) {
    Fixture fixture = load("quota");
    for (auto& event : fixture.objects.events) {
      if (event["reason"] == "FailedCreate") event["message"] = message;
    }
    const RunStatus status = fixture.observed();
    CHECK(status.phase == Phase::scheduling);
    CHECK_FALSE(status.cannot_start);
    CHECK(status.why.find("the cluster refuses its pods") != std::string::npos);
  }
}

TEST_CASE("the phase of a run comes from the marked Job even if the role of this Job is not `worker`") {
  Fixture fixture = load("succeeded");
  for (auto& job : fixture.objects.jobs) {
    const bool server = job["metadata"]["name"] == "ok-aaaaa-server";
    job["metadata"]["annotations"]["mlk.dev/decides"] = server ? "true" : "false";
  }
  CHECK(fixture.observed().phase == Phase::running);  // the servers still run
}

TEST_CASE("if no Job is marked, the phase of a run comes from the workers' Job, or from the only Job") {
  Fixture fixture = load("succeeded");
  for (auto& job : fixture.objects.jobs) job["metadata"].erase("annotations");
  CHECK(fixture.observed().phase == Phase::succeeded);
  fixture = load("failed_oom");
  fixture.objects.jobs[0]["metadata"].erase("annotations");
  fixture.objects.jobs[0]["metadata"]["labels"]["mlk.dev/role"] = "main";
  CHECK(fixture.observed().phase == Phase::failed);
}

TEST_CASE("a run with enough good ranks has succeeded even if its Job reports failed ranks") {
  for (const char* condition : {"Failed", "FailureTarget"}) {
    Fixture fixture = load("running_with_a_failed_rank");
    auto& status = fixture.objects.jobs[0]["status"];
    status["conditions"] = {{{"type", condition},
                             {"status", "True"},
                             {"reason", "FailedIndexes"},
                             {"message", "Job has failed indexes"},
                             {"lastTransitionTime", "2026-11-21T08:03:40Z"}}};
    status["completedIndexes"] = "0";
    CHECK(fixture.observed().why.find("worker/1: ") != std::string::npos);
    status["completedIndexes"] = "0,2";
    const RunStatus both = fixture.observed();
    CHECK(both.why.find("failing") == std::string::npos);
    CHECK(both.phase == Phase::succeeded);
  }
}

TEST_CASE("the reason of an evicted pod names the resource that the pod used up") {
  Fixture fixture = load("running_with_a_failed_rank");
  auto& status = fixture.objects.pods[1]["status"];
  status["reason"] = "Evicted";
  status["message"] = "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. ";
  status.erase("containerStatuses");
  CHECK(fixture.observed().why ==
        "worker/1: failed for good: evicted: Pod ephemeral local storage usage exceeds the total limit of "
        "containers 8Mi.");
}

TEST_CASE("the reason of a rejected pod names the node that rejected it") {
  Fixture fixture = load("running_with_a_failed_rank");
  auto& status = fixture.objects.pods[1]["status"];
  status["reason"] = "TopologyAffinityError";
  status["message"] = "Resources cannot be allocated with Topology locality";
  status.erase("containerStatuses");
  const std::string node = fixture.objects.pods[1]["spec"]["nodeName"];
  CHECK(fixture.observed().why == "worker/1: failed for good: rejected by node " + node +
                                      ": Resources cannot be allocated with Topology locality");
}

TEST_CASE("a run cannot start if its namespace is being deleted") {
  Fixture fixture = load("missing_service_account");
  for (auto& event : fixture.objects.events) {
    event["message"] =
        "Error creating: pods \"x-0-\" is forbidden: unable to create new content in namespace lab because "
        "it is being terminated";
  }
  CHECK(fixture.observed().why == "worker/0: the namespace is being deleted");
  CHECK(fixture.observed().cannot_start);
}

TEST_CASE("a refusal is not final if its cause is a webhook that is temporarily down") {
  Fixture fixture = load("missing_service_account");
  for (auto& event : fixture.objects.events) {
    event["message"] =
        "Error creating: Internal error occurred: failed calling webhook \"v.example\": connection refused";
  }
  CHECK_FALSE(fixture.observed().cannot_start);
  CHECK(fixture.observed().why.find("failed calling webhook") != std::string::npos);
}

TEST_CASE("warnings about an earlier object of the same name are ignored") {
  Fixture fixture = load("missing_service_account");
  for (auto& event : fixture.objects.events) event["involvedObject"]["uid"] = "another";
  CHECK(fixture.observed().why == "the cluster has not made its pods yet");
  CHECK_FALSE(fixture.observed().cannot_start);
}

TEST_CASE("if a pod waits for a Secret that the kubelet has not read yet, the run shows no reason") {
  Fixture fixture = load("missing_config_map_volume");
  for (auto& event : fixture.objects.events) {
    event["message"] =
        "MountVolume.SetUp failed for volume \"v\" : failed to sync secret cache: timed out waiting for the "
        "condition";
  }
  CHECK(fixture.observed().phase == Phase::starting);
  CHECK(fixture.observed().why.empty());
}

TEST_CASE("a run still shows why its image cannot be pulled when the kubelet tries to pull it again") {
  Fixture fixture = load("image_cannot_be_pulled");
  const std::string before = fixture.observed().why;
  for (auto& pod : fixture.objects.pods)
    pod["status"]["containerStatuses"][0]["state"] = {{"waiting", {{"reason", "ContainerCreating"}}}};
  CHECK(fixture.observed().why == before);
}

TEST_CASE("text from the cluster is printed without control characters") {
  Fixture fixture = load("failed_exit_code");
  for (auto& pod : fixture.objects.pods) {
    auto& state = pod["status"]["containerStatuses"][0]["state"];
    if (state.contains("terminated")) state["terminated"]["message"] = "\x1b[2Jgone\x07";
  }
  const RunStatus status = fixture.observed();
  CHECK(status.why.find('\x1b') == std::string::npos);
  CHECK(status.first_failure->message == "gone");
}

TEST_CASE("mlk does not crash if the objects of a run have an unexpected shape") {
  RunObjects objects;
  objects.owner = nlohmann::json::parse(R"({"metadata": {"name": 3, "annotations": []}, "data": "x"})");
  for (
      const char* text :
      {"{}", "[]", "null", "3", R"({"metadata": [], "spec": 1, "status": {"conditions": {"a": 1}}})",
       R"({"status": {"containerStatuses": [3], "conditions": [1, null, {"type": 1}]}})",
       R"({"spec": {"completions": -5, "backoffLimitPerIndex": 1e30}, "status": {"failedIndexes": "9-1,a,,4-"}})"}) {
    objects.jobs.push_back(nlohmann::json::parse(text));
    objects.pods.push_back(nlohmann::json::parse(text));
    objects.events.push_back(nlohmann::json::parse(text));
  }
  CHECK_NOTHROW(observe(objects, Time{}));
  CHECK_NOTHROW(observe(RunObjects{}, Time{}));
}

}  // namespace
}  // namespace mlk
