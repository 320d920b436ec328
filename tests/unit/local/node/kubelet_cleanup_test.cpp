// What the kubelet stops, removes and keeps when a pod ends or is deleted.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "tests/unit/local/kubelet_node.h"

TEST_SUITE_BEGIN("local/node/kubelet_cleanup");

namespace mlk::local {
namespace {

namespace kubelet_cleanup {

using samples::addresses_in;
using samples::create_pod;
using samples::have_ended;
using samples::holds_in_time;
using samples::json;
using samples::Node;
using samples::record_of;
using samples::write_text;
using namespace nlohmann::literals;

TEST_CASE("a deleted pod gets the grace period 0 if it has ended or has never begun") {
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

TEST_CASE("a deleted pod gets 30 s to end if the deletion has no grace period") {
  Node node;
  node.start(R"({"metadata": {"finalizers": ["f"]}})"_json);
  node.runs();
  node.store.modify("pods", "default", "p",
                    [](json& pod) { pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"; });
  node.step();
  REQUIRE(node.record().stop());
  CHECK(node.record().stop()->grace_seconds == 30);
}

TEST_CASE("the kubelet stops a supervisor whose pod is gone, and then removes the pod's folder") {
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

TEST_CASE("the kubelet ends the processes of a deleted pod whose supervisor was killed") {
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

TEST_CASE("the kubelet reaps a supervisor that ends after its pod is gone") {
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

TEST_CASE("the kubelet repeats the request to stop a supervisor only if the grace period becomes shorter") {
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

TEST_CASE("the address of a host is kept while its pod or its Job exists") {
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

TEST_CASE("a pod that belongs to no service loses its address when the pod has ended") {
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

TEST_CASE("the volumes of a pod are removed when the pod ends, but claims and the log stay") {
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

TEST_CASE("the pods of a service use the same port while at least one of them starts or runs") {
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

}  // namespace kubelet_cleanup

}  // namespace
}  // namespace mlk::local
