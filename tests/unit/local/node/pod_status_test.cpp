// A pod's status in every detail, the scheduler, and texts of programs.
#include "cli/local/node/pod_status.h"

#include <doctest/doctest.h>

#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/pod_status");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

json pod_of_one(const json& resources = json::object()) {
  return {{"metadata", {{"name", "p"}, {"uid", "u"}}},
          {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}, {"resources", resources}}}}}}};
}

json condition_of(const json& status, const std::string& type) {
  for (const json& condition : status.at("conditions")) {
    if (condition.at("type") == type) return condition;
  }
  return nullptr;
}

std::string qos_of(const char* resources) {
  return pod_status(pod_of_one(json::parse(resources)), PodState{}, noon).at("qosClass");
}

Exit exit_with(int code, const std::string& reason = "", const std::string& message = "") {
  return {code, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:01Z", reason, message};
}

json exited(const Exit& exit, const std::string& termination_message = "") {
  PodState state;
  state.exit = exit;
  state.termination_message = termination_message;
  return pod_status(pod_of_one(), state, noon);
}

}  // namespace

TEST_CASE("a pod whose container waits is Pending, and its status has the reason") {
  CHECK(pod_status(pod_of_one(), PodState{}, noon) == R"({
    "phase": "Pending", "hostIP": "127.0.0.1", "qosClass": "BestEffort", "startTime": "2026-11-21T12:00:00Z",
    "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "restartCount": 0, "ready": false,
      "started": false, "lastState": {}, "state": {"waiting": {"reason": "ContainerCreating"}}}],
    "conditions": [
      {"type": "Initialized", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T12:00:00Z"},
      {"type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T12:00:00Z",
       "reason": "ContainersNotReady", "message": "containers with unready status: [main]"},
      {"type": "ContainersReady", "status": "False", "lastProbeTime": null,
       "lastTransitionTime": "2026-11-21T12:00:00Z",
       "reason": "ContainersNotReady", "message": "containers with unready status: [main]"},
      {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T12:00:00Z"}]
    })"_json);
  json later = pod_of_one();
  later["status"]["startTime"] = "2037-01-01T00:00:00Z";  // from before the clock was set back
  CHECK(pod_status(later, PodState{}, noon).at("startTime") == "2026-11-21T12:00:00Z");
  PodState state;
  state.waiting = {"CreateContainerError", "no command"};
  CHECK(pod_status(pod_of_one(), state, noon).at("containerStatuses").at(0).at("state") ==
        R"({"waiting": {"reason": "CreateContainerError", "message": "no command"}})"_json);
}

TEST_CASE("a pod with a running container is Running and ready, and its status has address and start time") {
  PodState state;
  state.address = "127.64.0.1";
  state.running_since = "2026-11-21T11:59:00Z";
  const json status = pod_status(pod_of_one(), state, noon);
  CHECK(status.at("phase") == "Running");
  CHECK(status.at("podIP") == "127.64.0.1");
  CHECK(status.at("podIPs") == R"([{"ip": "127.64.0.1"}])"_json);
  CHECK(status.at("hostIPs") == R"([{"ip": "127.0.0.1"}])"_json);
  const json& container = status.at("containerStatuses").at(0);
  CHECK(container.at("state") == R"({"running": {"startedAt": "2026-11-21T11:59:00Z"}})"_json);
  CHECK(container.at("ready") == true);
  CHECK(container.at("started") == true);
  CHECK(container.at("containerID") == "local://u");
  for (const char* type : {"Ready", "ContainersReady", "Initialized", "PodScheduled"}) {
    CHECK(condition_of(status, type).at("status") == "True");
    CHECK_FALSE(condition_of(status, type).contains("reason"));
  }
  CHECK(condition_of(status, "DisruptionTarget").is_null());
}

TEST_CASE("a pod whose container has ended is Succeeded or Failed, and its status has exit code and times") {
  const json good = exited(exit_with(0), "done");
  CHECK(good.at("phase") == "Succeeded");
  CHECK(good.at("containerStatuses").at(0).at("state").at("terminated") ==
        R"({"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-21T12:00:01Z",
            "finishedAt": "2026-11-21T12:00:09Z", "containerID": "local://u", "message": "done"})"_json);
  CHECK(good.at("containerStatuses").at(0).at("ready") == false);
  CHECK(good.at("containerStatuses").at(0).at("containerID") == "local://u");
  CHECK(condition_of(good, "Ready").at("reason") == "PodCompleted");
  CHECK(condition_of(good, "Ready").at("status") == "False");
  CHECK(condition_of(good, "ContainersReady").at("reason") == "PodCompleted");
  CHECK(condition_of(good, "Initialized").at("reason") == "PodCompleted");
  CHECK_FALSE(good.contains("reason"));
  const json bad = exited(exit_with(3));
  CHECK(bad.at("phase") == "Failed");
  CHECK(bad.at("containerStatuses").at(0).at("state").at("terminated") ==
        R"({"exitCode": 3, "reason": "Error", "startedAt": "2026-11-21T12:00:01Z",
            "finishedAt": "2026-11-21T12:00:09Z", "containerID": "local://u"})"_json);
  CHECK(condition_of(bad, "Ready").at("reason") == "PodFailed");
  CHECK_FALSE(condition_of(bad, "Ready").contains("message"));
  CHECK_FALSE(condition_of(bad, "Initialized").contains("reason"));
  CHECK(condition_of(bad, "DisruptionTarget").is_null());
  CHECK(
      exited(exit_with(128, "StartError")).at("/containerStatuses/0/state/terminated/reason"_json_pointer) ==
      "StartError");
}

TEST_CASE("a pod that was lost has the reason NodeLost, and the condition DisruptionTarget") {
  const json lost = exited(exit_with(137, "Lost", "not located"));
  CHECK(lost.at("reason") == "NodeLost");
  CHECK(lost.at("message") == "not located");
  CHECK(lost.at("/containerStatuses/0/state/terminated/reason"_json_pointer) == "ContainerStatusUnknown");
  CHECK(condition_of(lost, "DisruptionTarget").at("reason") == "TerminationByKubelet");
  CHECK(condition_of(lost, "DisruptionTarget").at("message") == "The process and its supervisor are gone.");
  const json down = exited(exit_with(143, "shutdown", "m"));
  CHECK(down.at("reason") == "Terminated");
  CHECK(down.at("message") == "m");
  CHECK(condition_of(down, "DisruptionTarget").at("message") ==
        "Pod was terminated in response to imminent node shutdown.");
}

TEST_CASE("the qosClass of a pod follows from the requests and limits of the pod") {
  CHECK(qos_of("{}") == "BestEffort");
  CHECK(qos_of(R"({"limits": {"nvidia.com/gpu": 1}})") == "BestEffort");
  CHECK(qos_of(R"({"requests": {"cpu": 1}})") == "Burstable");
  CHECK(qos_of(R"({"limits": {"memory": 1}})") == "Burstable");
  CHECK(qos_of(R"({"limits": {"cpu": 1, "memory": 1}, "requests": {"cpu": 1, "memory": 1}})") ==
        "Guaranteed");
  CHECK(qos_of(R"({"limits": {"cpu": 2, "memory": 1}, "requests": {"cpu": 1, "memory": 1}})") == "Burstable");
  CHECK(qos_of(R"({"limits": {"cpu": 1}, "requests": {"cpu": 1}})") == "Burstable");
}

TEST_CASE("a pod that requests a resource that the node lacks, such as amd.com/gpu, is not scheduled") {
  const auto why = [](const char* requests) {
    return why_unschedulable(pod_of_one({{"requests", json::parse(requests)}})).value_or("fits");
  };
  CHECK(why(R"({"cpu": 100, "memory": "9Ti", "ephemeral-storage": 1})") == "fits");
  for (const char* amount : {"1", "\"1\"", "\"500m\""})
    CHECK(why((std::string(R"({"cpu": 1, "amd.com/gpu": )") + amount + "}").c_str()) ==
          "0/1 nodes are available: 1 Insufficient amd.com/gpu.");
  for (const char* amount : {"0", "\"0\"", "\"nonsense\""})
    CHECK(why((std::string(R"({"amd.com/gpu": )") + amount + "}").c_str()) == "fits");
  const json status = unschedulable_status(pod_of_one(), "no room", noon);
  CHECK(status == R"({"phase": "Pending", "qosClass": "BestEffort", "conditions": [{"type": "PodScheduled",
    "status": "False", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T12:00:00Z",
    "reason": "Unschedulable", "message": "no room"}]})"_json);
  json pod = pod_of_one();
  pod["status"] = status;
  CHECK(unschedulable_status(pod, "no room", noon + std::chrono::hours(1)) == status);
}

TEST_CASE("clean_text() cuts the text first, and then replaces invalid UTF-8") {
  CHECK(clean_text("abc", 3) == "abc");
  CHECK(clean_text("abcd", 3) == "abc");
  CHECK(clean_text("", 3) == "");
  CHECK(clean_text("ab\xc3\xa4", 3) == "ab\xef\xbf\xbd");
  CHECK(clean_text("\"\\\n", 9) == "\"\\\n");
}
