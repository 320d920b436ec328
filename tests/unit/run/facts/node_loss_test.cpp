// Tests which signs mean that a node is lost: the table of is_node_lost(), and the source of each sign.
#include "cli/run/facts/node_loss.h"

#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/state/status.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/facts/node_loss");

namespace mlk {
namespace {

using json = nlohmann::json;

struct LossRow {
  const char* what;
  bool lost, doubtful;
  LossSigns signs;
};

TEST_CASE("a node is lost if the Node object or the cluster reports the loss") {
  constexpr NodeWord unknown = NodeWord::unknown, answers = NodeWord::answers,
                     not_ready = NodeWord::not_ready, silent = NodeWord::silent, gone = NodeWord::gone;
  const LossRow rows[] = {
      {"nothing", false, false, {}},
      {"the node answers", false, false, {.node = answers}},
      {"the node is not ready, no pod shows it", false, true, {.node = not_ready}},
      {"the node is silent, no pod shows it", true, true, {.node = silent}},
      {"the node is gone, no pod shows it", true, true, {.node = gone}},
      {"ended on a node that is not ready", false, false, {.node = not_ready, .ended = true}},
      {"not scheduled, whatever a node says", false, false, {.node = silent, .scheduled = false}},
      {"given up", true, true, {.given_up = true}},
      {"given up, but the node answers", false, true, {.node = answers, .given_up = true}},
      {"given up, but the node says that it is not ready",
       false,
       true,
       {.node = not_ready, .given_up = true}},
      {"given up, and ended", true, false, {.ended = true, .given_up = true}},
      {"ended on a silent node", false, false, {.node = silent, .ended = true}},
      {"not scheduled", false, false, {.node = unknown, .scheduled = false, .given_up = true}},
      {"tainted, within its grace", false, true, {.tainted = true}},
      {"tainted, within its grace, and the node is silent", true, true, {.node = silent, .tainted = true}},
      {"tainted, within its grace, but the node answers", false, true, {.node = answers, .tainted = true}},
      {"tainted, past its grace", true, true, {.tainted = true, .past_grace = true}},
      {"tainted, past its grace, but the node answers",
       false,
       true,
       {.node = answers, .tainted = true, .past_grace = true}},
      {"past its grace for another reason", false, false, {.past_grace = true}},
      {"not ready", false, true, {.not_ready = true}},
      {"not ready, its containers are", false, true, {.not_ready = true, .containers_ready = true}},
      {"not ready, its containers are, and an event",
       true,
       true,
       {.not_ready = true, .containers_ready = true, .told_not_ready = true}},
      {"the same for a gate",
       false,
       true,
       {.not_ready = true, .containers_ready = true, .waits_for_gates = true, .told_not_ready = true}},
      {"the same, but the node answers",
       false,
       true,
       {.node = answers, .not_ready = true, .containers_ready = true, .told_not_ready = true}},
      {"the same, but the node says that it is not ready",
       false,
       true,
       {.node = not_ready, .not_ready = true, .containers_ready = true, .told_not_ready = true}},
      {"an old event, ready again", false, false, {.containers_ready = true, .told_not_ready = true}},
      {"an event, containers not ready", false, true, {.not_ready = true, .told_not_ready = true}},
      {"not ready on a silent node", true, true, {.node = silent, .not_ready = true}}};
  for (const LossRow& row : rows) {
    CAPTURE(row.what);
    CHECK(is_node_lost(row.signs) == row.lost);
    CHECK(is_doubtful(row.signs) == row.doubtful);
  }
}

TEST_CASE("a Node is silent if its kubelet does not report, or if the Node has the taint `out-of-service`") {
  const auto word = [](const char* status, const char* taint = nullptr) {
    json node = {
        {"status",
         {{"conditions",
           {{{"type", "MemoryPressure"}, {"status", "Unknown"}}, {{"type", "Ready"}, {"status", status}}}}}}};
    if (taint != nullptr) node["spec"]["taints"] = {{{"key", taint}}};
    return word_of_node(node);
  };
  CHECK(word("True") == NodeWord::answers);
  CHECK(word("False") == NodeWord::not_ready);  // the kubelet itself reports it
  CHECK(word("Unknown") == NodeWord::silent);
  CHECK(word("True", "node.kubernetes.io/out-of-service") == NodeWord::silent);
  CHECK(word("True", "node.kubernetes.io/unschedulable") == NodeWord::answers);
  CHECK(word_of_node(json::object()) == NodeWord::unknown);
  CHECK(word_of_node(nullptr) == NodeWord::gone);
}

json with_condition(const char* type, const char* status, const char* reason) {
  json pod = {{"spec", {{"nodeName", "n1"}}}, {"status", {{"phase", "Running"}}}};
  pod["status"]["conditions"] = {{{"type", type}, {"status", status}, {"reason", reason}}};
  return pod;
}

TEST_CASE("signs_of_pod() reads the signs of a node loss from the pod's status") {
  const Time now = *parse_time("2026-01-03T12:00:00Z");
  const auto signs = [&](const json& pod) { return signs_of_pod(pod, now); };
  json pod = with_condition("Ready", "False", "");
  CHECK(signs(pod).not_ready);
  CHECK_FALSE(signs(pod).waits_for_gates);
  CHECK(signs(with_condition("Ready", "False", "ReadinessGatesNotReady")).waits_for_gates);
  CHECK_FALSE(signs(with_condition("Ready", "True", "")).not_ready);
  CHECK(signs(with_condition("Ready", "Unknown", "")).not_ready);
  CHECK(signs(with_condition("ContainersReady", "True", "")).containers_ready);
  CHECK_FALSE(signs(with_condition("ContainersReady", "False", "")).containers_ready);
  CHECK(signs(with_condition("DisruptionTarget", "True", "DeletionByTaintManager")).tainted);
  CHECK_FALSE(signs(with_condition("DisruptionTarget", "False", "DeletionByTaintManager")).tainted);
  CHECK_FALSE(signs(with_condition("DisruptionTarget", "True", "EvictionByEvictionAPI")).tainted);
  pod["status"]["phase"] = "Pending";
  CHECK_FALSE(signs(pod).not_ready);
  CHECK_FALSE(signs(pod).ended);
  pod["status"]["phase"] = "Unknown";
  CHECK(signs(pod).given_up);
  pod["status"] = {{"reason", "NodeLost"}, {"phase", "Running"}};
  CHECK(signs(pod).given_up);
  for (const char* phase : {"Succeeded", "Failed"}) {
    pod["status"] = {{"phase", phase}};
    CHECK(signs(pod).ended);
    CHECK_FALSE(signs(pod).given_up);
  }
  CHECK(signs(pod).scheduled);
  pod["spec"].erase("nodeName");
  CHECK_FALSE(signs(pod).scheduled);
  CHECK_FALSE(signs(pod).past_grace);
  pod["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:00Z";
  CHECK_FALSE(signs(pod).past_grace);
  pod["metadata"]["deletionTimestamp"] = "2026-01-03T11:59:59Z";
  CHECK(signs(pod).past_grace);
}

TEST_CASE("a rank counts as missing if its Node is silent, or if an event on its pod reports the loss") {
  test::Run run;
  run.pod(1)["status"]["conditions"] = {{{"type", "Ready"}, {"status", "False"}},
                                        {{"type", "ContainersReady"}, {"status", "True"}}};
  CHECK(run.state(1) == "Running");
  run.objects.events = {
      {{"type", "Warning"}, {"reason", "NodeNotReady"}, {"involvedObject", {{"uid", "another"}}}}};
  CHECK(run.state(1) == "Running");
  run.objects.events[0]["involvedObject"]["uid"] = run.pod(1)["metadata"]["uid"];
  CHECK(run.state(1) == "Missing");
  CHECK(run.why().starts_with("worker/1: node n1 is lost"));
  run.objects.nodes["n1"] = {{"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
  CHECK(run.state(1) == "Running");
  run.objects.nodes["n1"]["status"]["conditions"][0]["status"] = "Unknown";
  CHECK(run.state(1) == "Missing");
  run.objects.nodes["n1"] = nullptr;
  CHECK(run.state(1) == "Missing");
}

}  // namespace
}  // namespace mlk
