// The context that the kubelet gives to a program, its retries, and its cleanup.
#include <csignal>
#include <fstream>
#include <functional>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "cli/util/json.h"
#include "tests/unit/local/kubelet_node.h"
#include "tests/unit/util/environment_variable.h"

TEST_SUITE_BEGIN("local/node/kubelet_steps");

namespace mlk::local {
namespace {

namespace kubelet_steps {

using samples::Folder;
using samples::json;
using samples::Node;
using samples::noon;
using samples::write_text;
using namespace nlohmann::literals;

bool holds_in_time(const std::function<bool()>& done) {
  for (int i = 0; i < 6000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Creates another pod of the node in the same way as `create`.
void create_pod(Node& node, const std::string& name, json spec = json::object()) {
  json whole = {{"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"work"}}}}}};
  whole.merge_patch(spec);
  node.store.create(
      "pods", {{"apiVersion", "v1"},
               {"kind", "Pod"},
               {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", Node::uid + "-" + name}}},
               {"spec", whole}});
}
PodFolder record_of(const Node& node, const std::string& name) {
  return PodFolder(node.paths.pods() / (Node::uid + "-" + name));
}
std::string value_of(const PodFolder& folder, const std::string& name) {
  const auto start = folder.start();
  if (!start) return "no record";
  for (const auto& [key, value] : start->env) {
    if (key == name) return value;
  }
  return "not set";
}
json addresses_in(const Node& node) {
  return parse_json(read_file(node.paths.root / "addresses.json", 100000), "");
}

TEST_CASE(
    "a program gets the needed part of the shell's environment, mlk's folder first in PATH, and no keys") {
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

TEST_CASE(
    "before its program runs a pod has an empty termination log, and files that only their owner can read") {
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

TEST_CASE("the status of a running pod has the address that other pods get for the host name of the pod") {
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

TEST_CASE("a pod that cannot be scheduled has one event of the scheduler") {
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

TEST_CASE("a pod that cannot start has the reason that Kubernetes gives, and one event of the kubelet") {
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

TEST_CASE("a pod that cannot be read does not delay the pods after it") {
  Node node;
  create_pod(node, "a", R"({"containers": [{"name": "main", "image": "i", "command": ["work"],
      "volumeMounts": [{"name": "of no volume", "mountPath": "/v"}]}]})"_json);
  node.start();
  CHECK_FALSE(record_of(node, "a").start());
}

TEST_CASE(
    "a termination message is cut at 4096 bytes, and a message from the log at 80 lines and 2048 bytes") {
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

// How many supervisors have been started, all of which have ended and wait to be reaped.
bool have_ended(const Node& node, std::size_t count) {
  return holds_in_time([&] {
    std::ifstream file(node.folder.path() / "started");
    std::size_t ended = 0;
    for (std::string pid; std::getline(file, pid);) {
      std::ifstream stat("/proc/" + pid + "/stat");
      std::string word;
      stat >> word >> word >> word;
      ended += word.empty() || word == "Z" ? 1u : 0u;
    }
    return ended == count;
  });
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

TEST_CASE(
    "the message about a killed supervisor has the signal, and no line of the log if the log is empty") {
  Node node("echo $$ >> \"$(dirname \"$0\")/started\"; kill -9 $$");
  node.start();
  REQUIRE(have_ended(node, 1));
  node.step(true);
  CHECK(node.state().at("waiting").at("message") ==
        "the supervisor of the pod did not start: killed by signal 9");
}

TEST_CASE(
    "a deleted pod that has ended or never began has the grace period 0, and stays only for its finalizers") {
  for (const bool began : {false, true}) {
    CAPTURE(began);
    Node node;
    node.create(R"({"metadata": {"finalizers": ["f"]}})"_json);
    node.step();
    if (began) {
      node.step();
      node.runs();
      node.supervisor_says(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
    }
    node.delete_pod(30);
    CHECK(node.phase() == (began ? "Succeeded" : "Failed"));
    CHECK(node.at("/metadata/deletionGracePeriodSeconds") == 0);
    CHECK_FALSE(node.record().stop());
    const std::string version = node.at("/metadata/resourceVersion");
    node.step(true);
    CHECK(node.at("/metadata/resourceVersion") == version);
  }
}

TEST_CASE("a pod that is deleted without a grace period gets thirty seconds") {
  Node node;
  node.start(R"({"metadata": {"finalizers": ["f"]}})"_json);
  node.runs();
  node.store.modify("pods", "default", "p",
                    [](json& pod) { pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"; });
  node.step();
  REQUIRE(node.record().stop());
  CHECK(node.record().stop()->grace_seconds == 30);
}

TEST_CASE("if a pod is gone, its supervisor is stopped at once, and then the folder of the pod is removed") {
  Node node;
  const PodFolder stray(node.paths.pods() / "stray");
  std::filesystem::create_directories(stray.path());
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    const FileLock lock(stray.lock());
    int number = 0;
    ::sigwait(&signals, &number);
    ::_exit(number == SIGTERM ? 0 : 1);
  }
  REQUIRE(holds_in_time([&] { return stray.supervisor().held; }));
  node.step(true);
  REQUIRE(stray.stop());
  CHECK(stray.stop()->grace_seconds == 0);
  CHECK(stray.stop()->reason.empty());
  int status = -1;
  ::waitpid(supervisor, &status, 0);
  CHECK(status == 0);
  node.step(true);
  CHECK_FALSE(std::filesystem::exists(stray.path()));
}

TEST_CASE(
    "if the supervisor of a deleted pod was killed, its processes are ended and the folder is removed") {
  Node node;
  const PodFolder stray(node.paths.pods() / "stray");
  std::filesystem::create_directories(stray.path());
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t left = ::fork();
  if (left == 0) {
    ::setsid();
    const auto start = ProcessId::of_this_process().start;
    [[maybe_unused]] const auto sent = ::write(ready[1], &start, sizeof start);
    while (true) ::pause();
  }
  ProcessId session = ProcessId::of_this_process();
  session.pid = left;
  CHECK(::read(ready[0], &session.start, sizeof session.start) == sizeof session.start);
  for (const int fd : ready) ::close(fd);
  stray.write(Started{"2026-11-21T12:00:05Z", left, session});
  node.step(true);
  CHECK_FALSE(std::filesystem::exists(stray.path()));
  int status = 0;
  const bool ended = holds_in_time([&] { return ::waitpid(left, &status, WNOHANG) == left; });
  CHECK(ended);
  if (!ended) ::kill(left, SIGKILL);
  CHECK(WTERMSIG(status) == SIGKILL);
}

TEST_CASE("a supervisor that outlives its pod is reaped when it ends") {
  const auto process_of = [](const Node& node) {
    std::string pid;
    std::ifstream(node.folder.path() / "started") >> pid;
    return "/proc/" + pid;
  };
  Node node(
      "echo $$ >> \"$(dirname \"$0\")/started\"; while [ ! -e \"$(dirname \"$0\")/go\" ]; do sleep 0.01; "
      "done");
  node.start();
  REQUIRE(holds_in_time([&] { return process_of(node) != "/proc/"; }));
  const std::string process = process_of(node);
  node.store.remove("pods", "default", "p");
  node.step(true);
  CHECK(std::filesystem::exists(process));
  write_text(node.folder.path() / "go", "");
  REQUIRE(have_ended(node, 1));
  node.step();
  CHECK_FALSE(std::filesystem::exists(process));
}

TEST_CASE("the kubelet asks a supervisor to stop once for each grace period") {
  Node node;
  node.start();
  node.runs();
  node.delete_pod(20);
  std::filesystem::remove(node.record().path() / "stop.json");
  node.delete_pod(20);
  CHECK_FALSE(node.record().stop());
  node.delete_pod(19);
  CHECK(node.record().stop());
}

TEST_CASE("the address of a host is kept while its pod or Job exists, and is free afterwards") {
  Node node;
  node.store.create("jobs", samples::job(1, {{"template", {{"spec", {{"subdomain", "s"}}}}}}));
  for (const char* name : {"a", "j-0", "j-1"}) create_pod(node, name);
  create_pod(node, "b", R"({"hostname": "host"})"_json);
  node.step();
  node.step();
  for (const char* host : {"a", "j-0", "j-1", "host"})
    CHECK(addresses_in(node).contains(std::string("default/") + host));
  for (const char* name : {"a", "j-0"}) node.store.remove("pods", "default", name);
  node.step(true);
  create_pod(node, "c");
  node.step();
  node.step();
  const json all = addresses_in(node);
  CHECK_FALSE(all.contains("default/a"));
  for (const char* host : {"j-0", "j-1", "host", "c"}) CHECK(all.contains(std::string("default/") + host));
}

TEST_CASE("if a pod has no name in a service, its address is free again when the pod has ended") {
  Node node;
  node.store.create("jobs", samples::job(1));
  for (const char* name : {"j-0", "j-1"}) create_pod(node, name);
  create_pod(node, "j-2", R"({"hostname": "j-2", "subdomain": "s"})"_json);
  node.step();
  node.step();
  for (const char* name : {"j-0", "j-2"}) {
    record_of(node, name).write(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
    node.kubelet.notice(Node::uid + "-" + name);
  }
  node.step(true);
  create_pod(node, "next");
  node.step(true);
  node.step();
  const json all = addresses_in(node);
  CHECK_FALSE(all.contains("default/j-0"));
  for (const char* host : {"j-1", "j-2", "next"}) CHECK(all.contains(std::string("default/") + host));
}

TEST_CASE("the volumes of a pod are removed at its end, and its claims and its log are kept") {
  Node node;
  node.store.create("configmaps",
                    {{"apiVersion", "v1"},
                     {"kind", "ConfigMap"},
                     {"metadata", {{"name", "points"}, {"namespace", "default"}, {"uid", "points"}}},
                     {"data", {{"points.jsonl", std::string(1 << 19, 'x')}, {"points.env", "y"}}}});
  node.start(R"({"spec": {
      "volumes": [{"name": "f", "configMap": {"name": "points"}}, {"name": "e", "emptyDir": {}},
                  {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}}],
      "containers": [{"name": "main", "image": "i", "command": ["work"], "volumeMounts": [
          {"name": "f", "mountPath": "/f"}, {"name": "e", "mountPath": "/e"}, {"name": "c", "mountPath": "/c"}]}]}})"_json);
  const auto folder = node.record().path();
  write_text(folder / "log", "2026-11-21T12:00:06.000000000Z stdout F words\n");
  write_text(folder / "volumes/e/scratch", "z");
  write_text(node.paths.claims() / "default/claim/kept", "z");
  node.runs();
  CHECK(std::filesystem::file_size(folder / "volumes/f/points.jsonl") == 1 << 19);
  CHECK(read_file(folder / "volumes/f/points.env", 10) == "y");
  node.supervisor_says(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
  CHECK(node.phase() == "Succeeded");
  CHECK_FALSE(std::filesystem::exists(folder / "volumes"));
  CHECK(std::filesystem::exists(node.paths.claims() / "default/claim/kept"));
  CHECK(node.logs.tail(Node::uid, 5, 100) == "words\n");
}

TEST_CASE(
    "the pods of a service use the same port while one of them exists, and choose a new port afterwards") {
  Node node;
  node.store.create("services", {{"apiVersion", "v1"},
                                 {"kind", "Service"},
                                 {"metadata", {{"name", "s"}, {"namespace", "default"}, {"uid", "s"}}},
                                 {"spec", {{"clusterIP", "None"}}}});
  // A program outside of the cluster listens on all addresses.
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof where;
  REQUIRE(::bind(fd, reinterpret_cast<struct sockaddr*>(&where), size) == 0);
  REQUIRE(::listen(fd, 1) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<struct sockaddr*>(&where), &size) == 0);
  const std::string port = std::to_string(ntohs(where.sin_port));
  const auto spec = [&](const std::string& service) {
    return json{{"subdomain", service},
                {"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"work", "w-0.s:" + port}}}}}};
  };
  const auto told = [&](const std::string& name, const std::string& service) {
    create_pod(node, name, spec(service));
    node.step();
    node.step();
    const auto start = record_of(node, name).start();
    REQUIRE(start);
    return start->argv.at(1).substr(start->argv.at(1).find(':') + 1);
  };
  const std::string chosen = told("w-0", "s");
  CHECK(chosen != port);
  ::close(fd);
  CHECK(told("w-1", "s") == chosen);  // the first pod is starting
  record_of(node, "w-0").write(Started{"2026-11-21T12:00:05Z", 4000000, Node::nobody()});
  node.kubelet.notice(Node::uid + "-w-0");
  node.step();
  node.store.remove("pods", "default", "w-1");
  node.step(true);
  CHECK(told("w-2", "s") == chosen);  // the first pod runs
  CHECK(told("other", "none") ==
        chosen);  // this pod is in a service without pods, so only the ports of that service are forgotten
  for (const char* name : {"w-0", "w-2"}) {
    record_of(node, name).write(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
    node.kubelet.notice(Node::uid + "-" + name);
  }
  node.step();
  node.step();
  CHECK(told("w-3", "s") == port);
}

}  // namespace kubelet_steps

}  // namespace
}  // namespace mlk::local
