// The kubelet's handling of a pod and of the records of its supervisor. The test plays the supervisors.
#include <map>
#include <thread>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "tests/unit/local/kubelet_node.h"

TEST_SUITE_BEGIN("local/node/kubelet");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

const std::string scheduled = "Normal Scheduled: Successfully assigned default/p to local";

TEST_CASE("the kubelet binds a pod to the node first, and then starts a supervisor with the program") {
  Node node;
  node.create(R"({"spec": {"terminationGracePeriodSeconds": 7}})"_json);
  node.step();
  CHECK(node.at("/spec/nodeName") == "local");
  CHECK(node.phase() == "Pending");
  CHECK(node.events() == std::vector<std::string>{scheduled});
  CHECK_FALSE(node.record().start());
  node.step();
  const auto told = node.record().start();
  REQUIRE(told);
  CHECK(told->pod == "default/p");
  CHECK(told->grace_seconds == 7);
  CHECK(told->argv == std::vector<std::string>{"work", "hard"});
  CHECK(node.phase() == "Pending");
  Node by_default;
  by_default.start();
  CHECK(by_default.record().start()->grace_seconds == 30);
}

TEST_CASE("a pod is Running when its supervisor has recorded that the program runs") {
  Node node;
  node.start();
  node.supervisor_says(Started{"2026-11-21T12:00:05Z", 0, Node::nobody()});  // no program runs yet
  CHECK(node.phase() == "Pending");
  node.runs();
  CHECK(node.phase() == "Running");
  CHECK(node.state() == R"({"running": {"startedAt": "2026-11-21T12:00:05Z"}})"_json);
  CHECK(node.events() == std::vector<std::string>{scheduled, "Normal Started: Started container main"});
  const std::string version = node.at("/metadata/resourceVersion");
  node.kubelet.notice(Node::uid);
  node.step();
  CHECK(node.at("/metadata/resourceVersion") == version);
}

TEST_CASE("a sweep of the kubelet reads the record of a supervisor that has sent no notice") {
  Node node;
  node.start();
  node.record().write(Started{"2026-11-21T12:00:05Z", 4000000, Node::nobody()});
  node.step();
  CHECK(node.phase() == "Pending");
  node.step(true);
  CHECK(node.phase() == "Running");
}

TEST_CASE("a pod ends when its program ends, and its status has the termination message of the program") {
  for (const int code : {0, 3}) {
    Node node;
    node.start();
    node.runs();
    write_text(node.record().path() / "termination-log", "my last words");
    node.supervisor_says(Exit{code, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
    CHECK(node.phase() == (code == 0 ? "Succeeded" : "Failed"));
    const json ended = node.state().at("terminated");
    CHECK(ended.at("exitCode") == code);
    CHECK(ended.at("message") == "my last words");
    CHECK(ended.at("startedAt") == "2026-11-21T12:00:05Z");
    CHECK(ended.at("finishedAt") == "2026-11-21T12:00:09Z");
  }
}

TEST_CASE("a failed pod with the policy FallbackToLogsOnError gets the end of its log if it has no message") {
  const json fallback = R"({"spec": {"containers": [
      {"name": "main", "image": "i", "command": ["work"], "terminationMessagePolicy": "FallbackToLogsOnError"}]}})"_json;
  const auto said = [](const json& patch, int code, const std::string& own) {
    Node node;
    node.start(patch);
    node.runs();
    write_text(node.record().path() / "log", "2026-11-21T12:00:06.000000000Z stdout F from the log\n");
    write_text(node.record().path() / "termination-log", own);
    node.supervisor_says(Exit{code, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
    return node.state().at("terminated").value("message", "");
  };
  CHECK(said(fallback, 1, "") == "from the log\n");
  CHECK(said(fallback, 1, "own words") == "own words");
  CHECK(said(fallback, 0, "").empty());
  CHECK(said(json::object(), 1, "").empty());
}

TEST_CASE("a pod fails if its program cannot be started, and its status has the reason") {
  Node node;
  node.start();
  node.supervisor_says(
      Exit{127, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:09Z", "StartError", "no such file"});
  CHECK(node.phase() == "Failed");
  CHECK(node.state().at("terminated").at("reason") == "StartError");
  CHECK(node.state().at("terminated").at("message") == "no such file");
  CHECK(node.events() ==
        std::vector<std::string>{scheduled,
                                 "Warning Failed: Error: failed to start container main: no such file"});
}

TEST_CASE("a pod is lost if its supervisor ends without a record of the end of the program") {
  Node node("exit 0");
  node.start();
  node.record().write(Started{"2026-11-21T12:00:05Z", 4000000, Node::nobody()});
  for (int i = 0; i < 1000 && node.phase() == "Pending"; ++i) {
    node.step();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(node.phase() == "Failed");
  CHECK(node.state().at("terminated").at("exitCode") == 137);
  CHECK(node.state().at("terminated").at("message") ==
        "The container could not be located when the pod was terminated");
  CHECK(node.record().exit()->reason == "Lost");
  CHECK(node.record().exit()->started_at == "2026-11-21T12:00:05Z");
}

TEST_CASE(
    "a pod with an unsupported volume waits until the user gives a folder, and its status has the reason") {
  Node node;
  const auto with_volume = [](const json& volume) {
    return json{{"spec",
                 {{"volumes", {volume}},
                  {"containers",
                   {{{"name", "main"},
                     {"image", "i"},
                     {"command", {"work"}},
                     {"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}}}}}}}}}};
  };
  node.create(with_volume({{"name", "v"}, {"iscsi", json::object()}}));
  for (int i = 0; i < 4; ++i) node.step();
  CHECK(node.phase() == "Pending");
  CHECK(node.state().at("waiting").at("reason") == "CreateContainerConfigError");
  const std::string why = node.state().at("waiting").at("message");
  CHECK_MESSAGE(why.starts_with("the local cluster has no volumes of type iscsi: "), why);
  CHECK(node.events() == std::vector<std::string>{scheduled, "Warning Failed: " + why});
  write_text(node.paths.volumes(), json{{"v", node.folder.path().string()}}.dump());
  node.step();
  CHECK(node.record().start());
}

TEST_CASE("a pod waits if it has a scheduling gate, or if it requests more than the node has") {
  Node gated;
  gated.create(R"({"spec": {"schedulingGates": [{"name": "g"}]}})"_json);
  gated.step();
  CHECK(gated.at("/spec/nodeName").is_null());
  CHECK(gated.events().empty());
  Node large;
  large.create(R"({"spec": {"containers": [{"name": "main", "image": "i", "command": ["work"],
      "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}})"_json);
  large.step();
  large.step();
  CHECK(large.at("/spec/nodeName").is_null());
  REQUIRE(large.events().size() == 1);
  CHECK(large.events()[0].starts_with("Warning FailedScheduling: "));
  CHECK(large.at("/status/conditions/0/reason") == "Unschedulable");
}

TEST_CASE("the kubelet asks a deleted pod to end, and a later deletion can only shorten the grace period") {
  Node node;
  node.start();
  node.runs();
  node.delete_pod(20);
  REQUIRE(node.record().stop());
  CHECK(node.record().stop()->grace_seconds == 20);
  CHECK(node.record().stop()->reason.empty());
  node.delete_pod(25);
  CHECK(node.record().stop()->grace_seconds == 20);
  node.delete_pod(5);
  CHECK(node.record().stop()->grace_seconds == 5);
  CHECK(node.phase() == "Running");
  int killing = 0;
  for (const std::string& event : node.events())
    killing += event == "Normal Killing: Stopping container main" ? 1 : 0;
  CHECK(killing == 1);
  node.supervisor_says(Exit{143, 15, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
  node.step();
  CHECK_FALSE(node.store.find("pods", "default", "p"));
}

TEST_CASE("a pod that is deleted before its start is removed without a supervisor") {
  Node node;
  node.create();
  node.step();
  node.delete_pod(30);
  node.step();
  CHECK_FALSE(node.store.find("pods", "default", "p"));
  CHECK_FALSE(node.record().start());
}

TEST_CASE(
    "a sweep of the kubelet removes a folder whose pod is gone, and keeps the folder of an existing pod") {
  Node node;
  node.start();
  write_text(node.paths.pods() / "stray" / "log", "x");
  node.step();
  CHECK(std::filesystem::exists(node.paths.pods() / "stray"));
  node.step(true);
  CHECK_FALSE(std::filesystem::exists(node.paths.pods() / "stray"));
  CHECK(std::filesystem::exists(node.paths.pods() / Node::uid));
}

TEST_CASE("a restarted server continues with a pod that an earlier server has started") {
  Node node;
  node.start();
  node.record().write(Started{"2026-11-21T12:00:05Z", 4000000, Node::nobody()});
  node.record().write(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
  Kubelet later(node.store, node.logs, node.paths, "/nonexistent/mlk");
  later.step(node.now, true);
  CHECK(node.phase() == "Succeeded");
}

TEST_CASE(
    "the files of a ConfigMap lie in the folder of the pod, and the folder of a claim outlives the pod") {
  Node node;
  node.store.create("configmaps",
                    {{"apiVersion", "v1"},
                     {"kind", "ConfigMap"},
                     {"metadata", {{"name", "files"}, {"namespace", "default"}, {"uid", "files"}}},
                     {"data", {{"a.txt", "content"}, {"b", "more"}}}});
  node.start(R"({"spec": {
      "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
                  {"name": "f", "configMap": {"name": "files", "items": [{"key": "a.txt", "path": "a.txt"},
                                                                         {"key": "b", "path": "deep/er/b.txt"}]}}],
      "containers": [{"name": "main", "image": "i", "command": ["work"],
                      "volumeMounts": [{"name": "c", "mountPath": "/c"}, {"name": "f", "mountPath": "/f"}]}]}})"_json);
  CHECK(std::filesystem::is_directory(node.paths.claims() / "default" / "claim"));
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(node.paths.pods() / Node::uid)) {
    if (entry.path().extension() == ".txt")
      found[entry.path().parent_path().filename() / entry.path().filename()] = read_file(entry.path(), 100);
  }
  CHECK(found.size() == 2);
  CHECK(found["er/b.txt"] == "more");
}

}  // namespace
}  // namespace mlk::local
