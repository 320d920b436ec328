// The environment and the files that the kubelet gives to a program, and what it does with a pod that does
// not start.
#include <algorithm>
#include <memory>
#include <optional>
#include <sys/stat.h>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "tests/unit/local/kubelet_node.h"
#include "tests/unit/util/environment_variable.h"

TEST_SUITE_BEGIN("local/node/kubelet_steps");

namespace mlk::local {
namespace {

namespace kubelet_steps {

using samples::addresses_in;
using samples::create_pod;
using samples::have_ended;
using samples::json;
using samples::Node;
using samples::record_of;
using samples::write_text;
using namespace nlohmann::literals;

std::string value_of(const PodFolder& folder, const std::string& name) {
  const auto start = folder.start();
  if (!start) return "no record";
  for (const auto& [key, value] : start->env) {
    if (key == name) return value;
  }
  return "not set";
}

TEST_CASE("a program gets HOME, LANG and a few more variables from the shell, and no secrets") {
  const std::vector<std::string> passed = {"HOME",        "USER",         "LOGNAME",   "SHELL",
                                           "LANG",        "LC_ALL",       "LC_CTYPE",  "TZ",
                                           "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"};
  std::vector<std::unique_ptr<EnvironmentVariable>> set;
  for (const std::string& name : passed)
    set.push_back(std::make_unique<EnvironmentVariable>(name, "of " + name));
  const EnvironmentVariable secret("AWS_SECRET_ACCESS_KEY", "secret"), config("KUBECONFIG", "config");
  for (const std::optional<std::string>& path :
       {std::optional<std::string>("/some/bin:/bin"), std::optional<std::string>()}) {
    Node node;
    const EnvironmentVariable changed("PATH", path);
    node.start(
        R"({"spec": {"hostname": "h", "containers": [{"name": "main", "image": "i", "command": ["work"],
        "workingDir": "/work", "env": [{"name": "LANG", "value": "own"}]}]}})"_json);
    CHECK(value_of(node.record(), "PATH") ==
          node.folder.path().string() + ":" + path.value_or("/usr/local/bin:/usr/bin:/bin"));
    for (const std::string& name : passed)
      CHECK(value_of(node.record(), name) == (name == "LANG" ? "own" : "of " + name));
    for (const char* name : {"AWS_SECRET_ACCESS_KEY", "KUBECONFIG"})
      CHECK(value_of(node.record(), name) == "not set");
    CHECK(value_of(node.record(), "HOSTNAME") == "h");
    CHECK(node.record().start()->working_folder == "/work");
    for (const std::string& name : passed) {
      const auto env = node.record().start()->env;
      CHECK(std::ranges::count_if(env, [&](const auto& pair) { return pair.first == name; }) == 1);
    }
  }
  Node node;
  const EnvironmentVariable none("TZ", std::nullopt);
  node.start();
  CHECK(value_of(node.record(), "TZ") == "not set");
}

TEST_CASE("a pod has an empty termination log and the files of its volumes before its program runs") {
  Node node;
  node.store.create("secrets", {{"apiVersion", "v1"},
                                {"kind", "Secret"},
                                {"metadata", {{"name", "key"}, {"namespace", "default"}, {"uid", "key"}}},
                                {"data", {{"k", "a2V5"}}}});
  node.start(R"({"spec": {"volumes": [{"name": "f", "secret": {"secretName": "key"}}],
      "containers": [{"name": "main", "image": "i", "command": ["work"], "volumeMounts": [{"name": "f", "mountPath": "/f"}]}]}})"_json);
  for (const char* file : {"termination-log", "volumes/f/k"}) {
    struct stat info{};
    REQUIRE(::stat((node.record().path() / file).c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
    CHECK(read_file(node.record().path() / file, 100) ==
          (std::string(file) == "termination-log" ? "" : "key"));
  }
}

TEST_CASE("podIP in the status of a pod is the address that other pods get for the pod's host name") {
  Node node;
  node.store.create("services", {{"apiVersion", "v1"},
                                 {"kind", "Service"},
                                 {"metadata", {{"name", "s"}, {"namespace", "default"}, {"uid", "s"}}},
                                 {"spec", {{"clusterIP", "None"}}}});
  node.start(
      R"({"spec": {"hostname": "w-0", "containers": [{"name": "main", "image": "i", "command": ["work", "w-0.s", "w-0.t"]}]}})"_json);
  node.runs();
  const std::string address = node.at("/status/podIP");
  CHECK(addresses_in(node).at("default/w-0") == address);
  CHECK(node.record().start()->argv == std::vector<std::string>{"work", address, "w-0.t"});
  CHECK(node.at("/status/hostIP") == "127.0.0.1");
  CHECK(node.at("/status/podIPs/0/ip") == address);
  node.supervisor_says(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
  CHECK(node.at("/status/podIP") == address);
}

TEST_CASE("a pod that cannot be scheduled gets only one event, even after several steps") {
  Node node;
  node.create(R"({"spec": {"containers": [{"name": "main", "image": "i", "command": ["work"],
      "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}})"_json);
  for (int i = 0; i < 3; ++i) node.step();
  const auto events = node.store.list("events");
  REQUIRE(events.size() == 1);
  CHECK(events[0]->at("count") == 1);
  CHECK(events[0]->at("reportingComponent") == "default-scheduler");
  CHECK(events[0]->at("message") == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.");
  CHECK(node.phase() == "Pending");
}

// "reason: message" of the waiting container, and the one warning about it.
std::pair<std::string, json> held_up(Node& node, const json& patch) {
  node.create(patch);
  for (int i = 0; i < 4; ++i) node.step();
  const json waiting = node.state().value("waiting", json::object());
  json warning;
  for (const Object& event : node.store.list("events")) {
    if (event->at("type") == "Warning") warning = *event;
  }
  CHECK_FALSE(node.record().start());
  return {waiting.value("reason", "") + ": " + waiting.value("message", ""), warning};
}

TEST_CASE("a pod that cannot start has a status with the reason, and one event of the kubelet") {
  struct Case {
    const char* volume;
    const char* status;
    const char* event;
  };
  for (const Case& at :
       {Case{R"({"configMap": {"name": "none"}})",
             "ContainerCreating: MountVolume.SetUp failed for volume \"v\" : configmap \"none\" not found",
             "FailedMount"},
        Case{R"({"persistentVolumeClaim": {"claimName": 5}})", "CreateContainerConfigError: ", "Failed"},
        Case{R"({"persistentVolumeClaim": {"claimName": "c"}})", "CreateContainerError: ", "Failed"}}) {
    CAPTURE(at.volume);
    Node node;
    write_text(node.paths.claims(), "a file where a folder is to be made");
    json volume = json::parse(at.volume);
    volume["name"] = "v";
    const auto [status, event] =
        held_up(node, {{"spec",
                        {{"volumes", {volume}},
                         {"containers",
                          {{{"name", "main"},
                            {"image", "i"},
                            {"command", {"work"}},
                            {"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}}}}}}}}}});
    CHECK_MESSAGE(status.starts_with(at.status), status);
    CHECK(status.size() > std::string(at.status).size() - (std::string(at.status).ends_with(": ") ? 0 : 1));
    REQUIRE(event.is_object());
    CHECK(event.at("reason") == at.event);
    CHECK(event.at("message") == status.substr(status.find(": ") + 2));
    CHECK(event.at("count") == 1);
    CHECK(event.at("reportingComponent") == "kubelet");
    CHECK(event.at("involvedObject").at("name") == "p");
    CHECK(node.phase() == "Pending");
  }
}

TEST_CASE("a pod with an invalid spec does not delay the pods after it") {
  Node node;
  create_pod(node, "a", R"({"containers": [{"name": "main", "image": "i", "command": ["work"],
      "volumeMounts": [{"name": "of no volume", "mountPath": "/v"}]}]})"_json);
  node.start();
  CHECK_FALSE(record_of(node, "a").start());
}

TEST_CASE("a termination message has at most 4096 bytes, or 80 lines and 2048 bytes if it is from the log") {
  const auto words = [](const std::string& own, const std::string& log, const Exit& exit) {
    Node node;
    node.start(R"({"spec": {"containers": [
      {"name": "main", "image": "i", "command": ["work"], "terminationMessagePolicy": "FallbackToLogsOnError"}]}})"_json);
    node.runs();
    write_text(node.record().path() / "log", log);
    write_text(node.record().path() / "termination-log", own);
    node.supervisor_says(exit);
    return node.state().at("terminated").value("message", "");
  };
  const Exit failed{1, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""};
  CHECK(words(std::string(4096, 'x'), "", failed) == std::string(4096, 'x'));
  CHECK(words(std::string(4097, 'x') + "y", "", failed) == std::string(4096, 'x'));
  std::string short_lines, long_lines, last;
  for (int i = 0; i < 100; ++i) {
    short_lines += "2026-11-21T12:00:06.000000000Z stdout F " + std::to_string(i) + "\n";
    long_lines += "2026-11-21T12:00:06.000000000Z stdout F " + std::string(99, 'x') + "\n";
    if (i >= 20) last += std::to_string(i) + "\n";
  }
  CHECK(words("", short_lines, failed) == last);
  CHECK(words("", long_lines, failed).size() == 2048);
  Exit lost = failed;
  lost.reason = "Lost";
  lost.message = "nobody saw it";
  CHECK(words("own words", "", lost) == "nobody saw it");
  lost.reason = "shutdown";
  CHECK(words("own words", "", lost) == "own words");
}

TEST_CASE(
    "if a supervisor does not start, the kubelet tries again after pauses that double, up to a minute") {
  Node node("echo $$ >> \"$(dirname \"$0\")/started\"; echo first; echo last words >&2; echo; exit 3");
  node.start();
  std::size_t started = 1;
  REQUIRE(have_ended(node, started));
  Time next = node.now;
  for (const int pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    CAPTURE(pause);
    next += std::chrono::seconds(pause);
    node.kubelet.step(next - std::chrono::seconds(1), true);
    node.kubelet.step(next - std::chrono::milliseconds(1), true);
    if (started == 1) CHECK(node.state().at("waiting").value("message", "") == "");
    node.kubelet.step(next, true);
    CHECK(node.state() ==
          json{{"waiting",
                {{"reason", "CreateContainerError"},
                 {"message", "the supervisor of the pod did not start: exit code 3: last words"}}}});
    REQUIRE(have_ended(node, ++started));
  }
  for (const Object& event : node.store.list("events")) CHECK(event->at("count") == 1);
  CHECK(node.events() ==
        std::vector<std::string>{
            "Normal Scheduled: Successfully assigned default/p to local",
            "Warning Failed: the supervisor of the pod did not start: exit code 3: last words"});
}

TEST_CASE("if a supervisor is killed at its start, the message names the signal, even if the log is empty") {
  Node node("echo $$ >> \"$(dirname \"$0\")/started\"; kill -9 $$");
  node.start();
  REQUIRE(have_ended(node, 1));
  node.step(true);
  CHECK(node.state().at("waiting").at("message") ==
        "the supervisor of the pod did not start: killed by signal 9");
}

}  // namespace kubelet_steps

}  // namespace
}  // namespace mlk::local
