// activeDeadlineSeconds: the kubelet ends a pod after this time, as on a node of Kubernetes.
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/local/node/pod_status.h"
#include "tests/unit/local/kubelet_node.h"

TEST_SUITE_BEGIN("local/node/deadline");

namespace mlk::local {
namespace {

namespace deadlines {

using samples::json;
using samples::Node;
using namespace nlohmann::literals;

// The pod is bound in the first second after noon, and the deadline counts from then.
void start_limited(Node& node, int seconds) {
  node.start({{"spec", {{"activeDeadlineSeconds", seconds}, {"terminationGracePeriodSeconds", 7}}}});
  node.runs();
}

Exit ended(int code, const std::string& reason) {
  return {code, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", reason, ""};
}

}  // namespace deadlines

TEST_CASE("a pod is stopped and fails when it has run for activeDeadlineSeconds") {
  using namespace deadlines;
  for (const int code : {143, 0}) {  // a program may also end with 0 when it gets SIGTERM
    CAPTURE(code);
    Node node;
    start_limited(node, 5);
    CHECK(node.at("/status/startTime") == "2026-11-21T12:00:01Z");
    while (node.now < samples::noon + std::chrono::seconds(5)) node.step(true);
    CHECK_FALSE(node.record().stop());
    node.step();
    REQUIRE(node.record().stop());
    CHECK(node.record().stop()->grace_seconds == 7);
    CHECK(node.record().stop()->reason == deadline_reason);
    CHECK(node.phase() == "Running");
    node.step(true);
    node.supervisor_says(ended(code, deadline_reason));
    CHECK(node.phase() == "Failed");
    CHECK(node.at("/status/reason") == "DeadlineExceeded");
    CHECK(node.at("/status/message") == "Pod was active on the node longer than the specified deadline");
    CHECK(node.state().at("terminated").at("exitCode") == code);
    for (const json& condition : node.at("/status/conditions")) {
      if (condition.at("type") == "Ready") CHECK(condition.at("reason") == "PodFailed");
    }
    const auto events = node.events();
    for (const char* event :
         {"Normal DeadlineExceeded: Pod was active on the node longer than the specified deadline",
          "Normal Killing: Stopping container main"})
      CHECK(std::ranges::count(events, event) == 1);
  }
}

TEST_CASE("a pod succeeds if its program ends after the deadline, but before the kubelet has stopped it") {
  using namespace deadlines;
  Node node;
  start_limited(node, 5);
  node.record().write(ended(0, ""));
  node.now += std::chrono::seconds(60);
  node.step(true);
  CHECK(node.phase() == "Succeeded");
  CHECK(node.at("/status/reason").is_null());
  CHECK_FALSE(node.record().stop());
}

TEST_CASE("if the deadline of a pod passes while no server runs, the next server stops the pod") {
  using namespace deadlines;
  Node node;
  start_limited(node, 100);
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    ::signal(SIGTERM, SIG_DFL);
    const FileLock lock(node.record().lock());
    while (true) ::pause();
  }
  for (int i = 0; i < 30'000 && !node.record().supervisor().held; ++i) ::usleep(1000);
  Kubelet later(node.store, node.logs, node.paths, "/nonexistent/mlk");
  later.step(samples::noon + std::chrono::seconds(100), true);
  CHECK_FALSE(node.record().stop());
  later.step(samples::noon + std::chrono::seconds(101), true);
  const auto stop = node.record().stop();
  if (!stop) ::kill(supervisor, SIGKILL);
  CHECK(stop.value_or(Stop{}).reason == deadline_reason);
  int status = 0;
  CHECK(::waitpid(supervisor, &status, 0) == supervisor);  // the supervisor got SIGTERM
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("if a pod cannot be started before its deadline, it fails without a process") {
  using namespace deadlines;
  Node node;
  node.create(R"({"metadata": {"finalizers": ["f"]}, "spec": {"activeDeadlineSeconds": 5,
      "volumes": [{"name": "v", "configMap": {"name": "none"}}]}})"_json);
  for (int i = 0; i < 5; ++i) node.step();
  CHECK(node.phase() == "Pending");
  node.step();
  CHECK(node.phase() == "Failed");
  CHECK(node.at("/status/reason") == "DeadlineExceeded");
  CHECK(node.state().at("terminated").at("exitCode") == 137);
  CHECK(node.state().at("terminated").at("finishedAt") == format_time(node.now));
  CHECK_FALSE(node.record().start());
  const std::string version = node.at("/metadata/resourceVersion");
  node.step(true);
  CHECK(node.at("/metadata/resourceVersion") == version);
}

TEST_CASE("the kubelet asks a deleted pod to end, and does not ask again at the deadline of the pod") {
  using namespace deadlines;
  Node node;
  start_limited(node, 5);
  node.delete_pod(3);
  std::filesystem::remove(node.record().path() / "stop.json");
  for (int i = 0; i < 10; ++i) node.step();
  CHECK_FALSE(node.record().stop());
}

TEST_CASE("deadline_of() counts from the start of the pod, and returns nothing for a pod without a start") {
  json pod = {{"spec", {{"activeDeadlineSeconds", 90}}}, {"status", {{"startTime", "2026-11-21T12:00:00Z"}}}};
  CHECK(deadline_of(pod) == samples::noon + std::chrono::seconds(90));
  pod["spec"]["activeDeadlineSeconds"] = "90";
  CHECK_FALSE(deadline_of(pod));
  pod["spec"].erase("activeDeadlineSeconds");
  CHECK_FALSE(deadline_of(pod));
  CHECK_FALSE(deadline_of({{"spec", {{"activeDeadlineSeconds", 90}}}}));
  CHECK_FALSE(deadline_of({{"spec", {{"activeDeadlineSeconds", 90}}}, {"status", {{"phase", "Pending"}}}}));
}

}  // namespace
}  // namespace mlk::local
