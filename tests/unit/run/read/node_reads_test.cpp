// Tests how the Nodes of a run's pods are read by one watch, and by name while they are in doubt.
#include "cli/run/read/node_reads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/read/side_reads.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/read/node_reads");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace std::chrono_literals;

json node(const std::string& name, const std::string& ready, const std::string& label) {
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata", {{"name", name}, {"labels", {{"kubernetes.io/hostname", label}}}}},
          {"status",
           {{"conditions", {{{"type", "Ready"}, {"status", ready}}}}, {"images", {{{"sizeBytes", 5}}}}}}};
}

// The requests for nodes, and which of "list", "watch" and "get" are refused.
struct Asked {
  std::mutex mutex;
  std::vector<std::string> requests;
  std::set<std::string> refused;

  std::optional<local::Answer> take(const local::Request& request) {
    if (!request.path.starts_with("/api/v1/nodes")) return std::nullopt;
    const std::string what = request.path != "/api/v1/nodes" ? "get"
                             : request.flag("watch")         ? "watch"
                                                             : "list";
    const std::lock_guard lock(mutex);
    requests.push_back(what + " " + request.parameter("labelSelector"));
    if (refused.count(what) == 0) return std::nullopt;
    return test::refusal(403, "Forbidden", "nodes are not for you");
  }
  std::size_t count(const std::string& what) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(
        std::count_if(requests.begin(), requests.end(),
                      [&](const std::string& request) { return request.starts_with(what); }));
  }
};

// A cluster with the node n1, on which all pods of a run lie, and a watcher of this run.
struct Nodes : test::FakeCluster {
  test::Run run;
  std::shared_ptr<Asked> log = std::make_shared<Asked>();
  kube::Client client{config()};
  SideReads reads{client, "lab", SideReads::Scope::runs, 20ms};

  explicit Nodes(const std::set<std::string>& refused = {}) {
    store.create("nodes", node("n1", "True", "n1"));
    log->refused = refused;
    before([log = log](const local::Request& request) { return log->take(request); });
  }
  void say(const std::string& ready, const std::string& name = "n1") {
    store.modify("nodes", "", name,
                 [&](json& changed) { changed["status"]["conditions"][0]["status"] = ready; });
  }
  void mark(const char* ready) {
    for (json& pod : run.objects.pods)
      pod["status"]["conditions"] = {{{"type", "Ready"}, {"status", ready}},
                                     {{"type", "ContainersReady"}, {"status", "True"}}};
  }
  std::size_t asked(const std::string& what) const { return log->count(what); }
  std::string seen() {
    reads.poll(run.objects);
    return run.state(0);
  }
  bool knows(const std::string& name = "n1") {
    reads.poll(run.objects);
    return run.objects.nodes.count(name) > 0;
  }
  // Polls as the watching commands do, also if nothing in the run has changed.
  bool becomes(const std::string& state) {
    return eventually([&] { return seen() == state; });
  }
};

TEST_CASE("a node that was not ready and falls silent counts as lost at once") {
  Nodes cluster;
  REQUIRE(eventually([&] { return cluster.knows(); }));
  CHECK(cluster.seen() == "Running");
  cluster.say("False");
  CHECK(eventually([&] { return cluster.seen() == "Running" && cluster.asked("get") > 1; }));
  cluster.say("Unknown");
  CHECK(cluster.becomes("Missing"));
  cluster.say("True");
  CHECK(cluster.becomes("Running"));
}

TEST_CASE("a doubtful node is polled by name if the user may not watch nodes") {
  Nodes cluster({"list"});
  cluster.mark("False");
  cluster.say("False");
  REQUIRE(eventually([&] { return cluster.knows(); }));
  cluster.mark("True");  // the kubelet still runs and reports it
  CHECK(cluster.seen() == "Running");
  cluster.say("Unknown");
  CHECK(cluster.becomes("Missing"));
  cluster.say("True");
  CHECK(cluster.becomes("Running"));
  const std::size_t asked = cluster.asked("get");
  for (int look = 0; look < 20; ++look) {
    cluster.seen();
    std::this_thread::sleep_for(5ms);
  }
  CHECK(cluster.asked("get") <= asked + 1);  // one request was under way
  CHECK(cluster.asked("list") == 1);
}

TEST_CASE("a node that mlk has seen counts as gone if it is deleted") {
  Nodes cluster;
  cluster.run.pod(1)["spec"]["nodeName"] = "hidden";
  REQUIRE(eventually([&] { return cluster.knows(); }));
  CHECK_FALSE(cluster.knows("hidden"));
  cluster.store.remove("nodes", "", "n1");
  CHECK(cluster.becomes("Missing"));
  CHECK(cluster.run.state(1) == "Running");
  CHECK(eventually([&] { return cluster.becomes("Missing") && cluster.asked("get") > 0; }));
  cluster.store.create("nodes", node("n1", "True", "n1"));
  CHECK(cluster.becomes("Running"));
}

TEST_CASE("a node with an unexpected hostname label is polled when another sign makes it doubtful") {
  Nodes cluster;
  cluster.store.create("nodes", node("n2", "True", "n2.lab"));
  for (json& pod : cluster.run.objects.pods) pod["spec"]["nodeName"] = "n2";
  cluster.run.server()["spec"]["nodeName"] = "n1";
  REQUIRE(eventually([&] { return cluster.knows("n1"); }));
  CHECK_FALSE(cluster.knows("n2"));
  CHECK(cluster.seen() == "Running");
  cluster.mark("False");
  cluster.say("Unknown", "n2");
  CHECK(cluster.becomes("Missing"));
}

TEST_CASE("one watch covers the nodes of all live pods") {
  Nodes cluster;
  REQUIRE(eventually([&] { return cluster.knows() && cluster.asked("watch") == 1; }));
  CHECK(cluster.asked("list kubernetes.io/hostname in (n1)") == 1);
  CHECK_FALSE(cluster.run.objects.nodes.at("n1")["status"].contains("images"));
  CHECK(cluster.asked("get") == 0);
  cluster.run.finish(cluster.run.pod(0));
  cluster.run.pod(0)["spec"]["nodeName"] = "n0";  // the node of an ended pod
  cluster.run.pending(cluster.run.pod(1), false);
  cluster.run.pod(2)["spec"]["nodeName"] = "n2";
  cluster.run.server()["spec"]["nodeName"] = std::string(64, 'x');  // too long for a value of a label
  cluster.store.create("nodes", node("n2", "Unknown", "n2"));
  CHECK(eventually([&] { return cluster.knows("n2"); }));
  CHECK(cluster.run.state(2) == "Missing");
  CHECK(cluster.asked("list kubernetes.io/hostname in (n2)") == 1);
  CHECK(cluster.asked("list") == 2);
  for (json& pod : cluster.run.objects.pods) cluster.run.finish(pod);
  cluster.reads.poll(cluster.run.objects);
  CHECK(cluster.asked("list") == 2);
}

TEST_CASE("a poll shows a silent node if the user may `list` nodes, or may `get` a node that is in doubt") {
  const auto seen = [](const std::set<std::string>& refuse, bool marked) {
    Nodes cluster(refuse);
    if (marked) cluster.mark("False");
    cluster.say("Unknown");
    cluster.reads.wait({&cluster.run.objects}, 20s);
    return cluster.run.state(0);
  };
  CHECK(seen({}, false) == "Missing");
  CHECK(seen({"get", "watch"}, false) == "Missing");
  CHECK(seen({"list"}, true) == "Missing");
  CHECK(seen({"list"}, false) == "Running");  // no request reports the silence
  CHECK(seen({"list", "get"}, true) == "Running");
}

// The first watch of this server ends at once, since its version is too old, so the nodes are listed again.
TEST_CASE("mlk learns from the next list that a node fell silent while the watch was broken") {
  for (const bool stays : {true, false}) {
    FakeServer server;
    std::atomic<int> lists = 0;
    server.http->Get("/api/v1/nodes", [&](const httplib::Request& request, httplib::Response& response) {
      if (request.has_param("watch")) {
        if (lists == 1) return answer(response, 410, status_body(410, "Expired", "too old"));
        return response.set_chunked_content_provider("application/json",
                                                     [&](std::size_t, httplib::DataSink&) {
                                                       server.hang();
                                                       return false;
                                                     });
      }
      json items = json::array({node("other", "True", "other")});
      if (++lists == 1 || stays) items.push_back(node("n1", lists == 1 ? "False" : "Unknown", "n1"));
      items.back()["metadata"]["resourceVersion"] = std::to_string(lists);
      answer(response, 200, json{{"metadata", {{"resourceVersion", "9"}}}, {"items", items}}.dump());
    });
    server.http->Get("/api/v1/nodes/n1", [&](const httplib::Request&, httplib::Response& response) {
      answer(response, 503, status_body(503, "ServiceUnavailable", "later"));
    });
    kube::Client client(server.start());
    test::Run run;
    SideReads reads(client, "lab", SideReads::Scope::runs);
    const auto state = [&] {
      reads.poll(run.objects);
      return run.state(0);
    };
    REQUIRE(eventually([&] { return state() == "Running" && run.objects.nodes.count("n1") > 0; }));
    CHECK(eventually([&] { return state() == "Missing"; }));
    CHECK(lists == 2);
  }
}

TEST_CASE("mlk forgets the state of a node if no pod of the run is on the node any more") {
  Nodes cluster({"list"});
  const auto move_to = [&](const char* name) {
    for (json& pod : cluster.run.objects.pods) pod["spec"]["nodeName"] = name;
    cluster.run.objects.nodes.clear();  // as in the objects of each poll
  };
  cluster.mark("False");
  cluster.say("Unknown");
  REQUIRE(cluster.becomes("Missing"));
  cluster.mark("True");
  move_to("n2");
  CHECK(cluster.seen() == "Running");
  cluster.say("True");
  move_to("n1");
  CHECK(cluster.seen() == "Running");
}

TEST_CASE("a list with an older version of a Node does not replace a newer answer") {
  std::atomic<bool> go = false;
  FakeServer server;
  const auto version = [](json object, const char* number) {
    object["metadata"]["resourceVersion"] = number;
    return object;
  };
  server.http->Get("/api/v1/nodes", [&](const httplib::Request& request, httplib::Response& response) {
    while (!server.stopping && (!go || request.has_param("watch"))) std::this_thread::sleep_for(1ms);
    const json items = {version(node("n1", "Unknown", "n1"), "9"), version(node("n2", "True", "n2"), "8")};
    answer(response, 200, json{{"metadata", {{"resourceVersion", "9"}}}, {"items", items}}.dump());
  });
  server.http->Get("/api/v1/nodes/n1", [&](const httplib::Request&, httplib::Response& response) {
    answer(response, 200, version(node("n1", "True", "n1"), "10").dump());
  });
  kube::Client client(server.start());
  test::Run run;
  run.pod(0)["status"]["conditions"] = {{{"type", "Ready"}, {"status", "False"}}};
  run.pod(1)["spec"]["nodeName"] = "n2";
  SideReads reads(client, "lab", SideReads::Scope::runs, 1h);
  const auto knows = [&](const char* name) {
    reads.poll(run.objects);
    return run.objects.nodes.count(name) > 0;
  };
  REQUIRE(eventually([&] { return knows("n1"); }));
  CHECK_FALSE(knows("n2"));
  go = true;
  REQUIRE(eventually([&] { return knows("n2"); }));
  CHECK(run.state(0) == "Running");
}

// A run on many nodes. Either all or none of the nodes are in doubt.
test::Run spread(int nodes, bool doubtful) {
  test::Run run;
  const json pod = run.pod(0);
  run.objects.pods.clear();
  for (int i = 0; i < nodes; ++i) {
    run.objects.pods.push_back(pod);
    run.objects.pods.back()["spec"]["nodeName"] = "n" + std::to_string(100 + i);
    run.objects.pods.back()["metadata"]["uid"] = std::to_string(i);
    if (doubtful)
      run.objects.pods.back()["status"]["conditions"] = {{{"type", "Ready"}, {"status", "False"}}};
  }
  return run;
}

// Answers requests for a node by name, but refuses lists.
struct AskedServer {
  std::atomic<int> asked = 0;
  std::mutex mutex;
  std::string selector;
  FakeServer server;  // declared last: its handlers use the members above

  kube::Config start() {
    server.http->Get("/api/v1/nodes", [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex);
      selector = request.get_param_value("labelSelector");
      CHECK(request.get_param_value("resourceVersion") == "0");
      answer(response, 403, status_body(403, "Forbidden", "no"));
    });
    server.http->Get("/api/v1/nodes/.+", [this](const httplib::Request&, httplib::Response& response) {
      ++asked;
      answer(response, 200, node("n", "True", "n").dump());
    });
    return server.start();
  }
};

TEST_CASE("one poll reads at most 64 nodes, and the next poll reads the others") {
  AskedServer server;
  test::Run run = spread(65, true);
  kube::Client client(server.start());
  SideReads reads(client, "lab", SideReads::Scope::runs, 0ms);  // the first nodes could be polled again
  reads.wait({&run.objects}, 20s);
  CHECK(server.asked == 64);
  CHECK(run.objects.nodes.size() == 64);
  reads.wait({&run.objects}, 20s);
  CHECK(run.objects.nodes.size() == 65);
}

TEST_CASE("at most 64 nodes are polled within one polling interval") {
  AskedServer server;
  test::Run run = spread(200, true);
  kube::Client client(server.start());
  SideReads reads(client, "lab", SideReads::Scope::runs, 1h);
  for (int look = 0; look < 3; ++look) reads.wait({&run.objects}, 20s);
  CHECK(server.asked == 64);
  const std::lock_guard lock(server.mutex);
  CHECK(server.selector.starts_with("kubernetes.io/hostname in (n100,n101,"));
  CHECK(server.selector.ends_with(",n163)"));
}

}  // namespace
}  // namespace mlk
