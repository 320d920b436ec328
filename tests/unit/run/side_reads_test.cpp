// What is asked beside a run's objects: nodes of doubtful pods, and the last words of containers that left
// none.
#include "cli/run/side_reads.h"

#include <atomic>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/status.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/run/plain_run.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace std::chrono_literals;

struct AsideCluster {
  FakeServer server;
  test::Run run;
  std::atomic<int> asked_nodes = 0, asked_logs = 0;

  explicit AsideCluster(int status, const json& node) {
    server.http->Get("/api/v1/nodes/n1",
                     [this, status, node](const httplib::Request&, httplib::Response& response) {
                       ++asked_nodes;
                       response.status = status;
                       response.set_content(node.dump(), "application/json");
                     });
    server.http->Get(R"(/api/v1/namespaces/lab/pods/(.+)/log)", [this](const httplib::Request& request,
                                                                       httplib::Response& response) {
      ++asked_logs;
      CHECK(request.get_param_value("container") == "fetch");
      response.set_content("2026-01-03T11:00:00Z cloning\n2026-01-03T11:00:01Z fatal: no\n", "text/plain");
    });
  }
  void doubt(int rank) {
    run.pod(rank)["status"]["conditions"] = {{{"type", "Ready"}, {"status", "False"}},
                                             {{"type", "ContainersReady"}, {"status", "True"}}};
  }
  RunObjects& read() {
    kube::Client client(server.start());
    SideReads reads(client, "lab");
    reads.wait({&run.objects}, 20s);
    reads.wait({&run.objects}, 20s);  // not again at once
    return run.objects;
  }
};

json node_that_is(const char* ready) {
  return {{"metadata", {{"name", "n1"}}},
          {"status", {{"conditions", {{{"type", "Ready"}, {"status", ready}}}}}}};
}

TEST_CASE("a node is asked once about all its doubtful pods, and not without a doubt") {
  AsideCluster calm(200, node_that_is("Unknown"));
  CHECK(calm.read().nodes.empty());
  CHECK(calm.asked_nodes == 0);
  AsideCluster silent(200, node_that_is("Unknown"));
  silent.doubt(0);
  silent.doubt(1);
  CHECK(silent.read().nodes.at("n1")["metadata"]["name"] == "n1");
  CHECK(silent.asked_nodes == 1);
  CHECK(silent.run.state(0) == "Missing");
}

TEST_CASE("whoever may not read nodes has no word of theirs; a node that is not there is gone") {
  AsideCluster forbidden(403, {{"kind", "Status"}});
  forbidden.doubt(0);
  CHECK(forbidden.read().nodes.empty());
  CHECK(forbidden.asked_nodes == 1);
  AsideCluster elsewhere(404, {{"kind", "Status"}});
  elsewhere.doubt(0);
  CHECK(elsewhere.read().nodes.empty());
  AsideCluster gone(404, {{"kind", "Status"}, {"details", {{"kind", "nodes"}}}});
  gone.doubt(0);
  CHECK(gone.read().nodes.at("n1").is_null());
  CHECK(gone.run.state(0) == "Missing");
}

TEST_CASE("the log of a container that failed is read where the pod's status has none of its words") {
  AsideCluster cluster(200, node_that_is("True"));
  json& pod = cluster.run.pod(0);
  pod["spec"]["initContainers"] = {{{"name", "fetch"}}};
  pod["status"] = {
      {"phase", "Failed"},
      {"initContainerStatuses", {{{"name", "fetch"}, {"state", {{"terminated", {{"exitCode", 128}}}}}}}}};
  CHECK(cluster.read().last_words.size() == 1);
  CHECK(cluster.asked_logs == 1);
  CHECK(cluster.run.observed().ranks.at(0).reason.starts_with(
      "init container fetch: exit code 128: fatal: no"));
  pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] = "its own";
  AsideCluster told(200, node_that_is("True"));
  told.run.pod(0) = pod;
  CHECK(told.read().last_words.empty());
  CHECK(told.asked_logs == 0);
}

}  // namespace
}  // namespace mlk
