// Tests the further requests for a run, beside those for its objects: for the nodes of doubtful pods, for
// missing last words of containers, and for the Service.
#include "cli/run/read/side_reads.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <tuple>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/state/status.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/read/side_reads");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace std::chrono_literals;

struct AsideCluster {
  FakeServer server;
  test::Run run;
  std::atomic<int> asked_nodes = 0, asked_logs = 0, asked_services = 0;
  int service = 200;
  std::string service_reason;

  explicit AsideCluster(int status, const json& node) {
    server.http->Get("/api/v1/nodes/n1",
                     [this, status, node](const httplib::Request&, httplib::Response& response) {
                       ++asked_nodes;
                       response.status = status;
                       response.set_content(node.dump(), "application/json");
                     });
    server.http->Get("/api/v1/namespaces/lab/services/r",
                     [this](const httplib::Request&, httplib::Response& response) {
                       ++asked_services;
                       response.status = service;
                       response.set_content(json{{"reason", service_reason}}.dump(), "application/json");
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
  RunObjects& read(SideReads::Scope scope = SideReads::Scope::one_run) {
    kube::Client client(server.start());
    SideReads reads(client, "lab", scope);
    reads.wait({&run.objects}, 20s);
    reads.wait({&run.objects}, 20s);  // this call sends no further requests
    return run.objects;
  }
};

json node_that_is(const char* ready) {
  return {{"metadata", {{"name", "n1"}}},
          {"status", {{"conditions", {{{"type", "Ready"}, {"status", ready}}}}}}};
}

TEST_CASE("a node with two doubtful pods is polled once") {
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

TEST_CASE("a node that does not exist counts as gone, but a node that cannot be read does not") {
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

TEST_CASE("the last words of a failed container are completed from its log") {
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
  // The kubelet has read the log before its last line arrived, or the container has left its own words.
  for (const auto& [message, told] : {std::pair("cloning\n", "fatal: no"), {"its own", "its own"}}) {
    pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] = message;
    AsideCluster other(200, node_that_is("True"));
    other.run.pod(0) = pod;
    other.read();
    CHECK(other.asked_logs == 1);
    const std::string reason = other.run.observed().ranks.at(0).reason;
    CHECK_MESSAGE(reason.starts_with(std::string("init container fetch: exit code 128: ") + told), reason);
  }
}

// The number of requests about the Service of a run that `change` has changed.
int asked_services(const std::function<void(test::Run&)>& change,
                   SideReads::Scope scope = SideReads::Scope::one_run) {
  AsideCluster cluster(200, node_that_is("True"));
  cluster.service = 404;
  cluster.service_reason = "NotFound";
  change(cluster.run);
  const bool gone = cluster.read(scope).service_is_gone;
  CHECK(gone == (cluster.asked_services > 0));
  return cluster.asked_services;
}

TEST_CASE("the Service of a run is requested if the run is active and has several ranks") {
  const auto annotate = [](test::Run& run, const char* annotation, const char* value) {
    run.objects.owner["metadata"]["annotations"][annotation] = value;
  };
  CHECK(asked_services([](test::Run&) {}) == 1);
  CHECK(asked_services([&](test::Run& run) { annotate(run, annotations::phase, "Running"); }) == 1);
  CHECK(asked_services([](test::Run&) {}, SideReads::Scope::runs) == 0);
  CHECK(asked_services([&](test::Run& run) { annotate(run, annotations::roles, R"({"worker":1})"); }) == 0);
  CHECK(asked_services([&](test::Run& run) { annotate(run, annotations::phase, "Failed"); }) == 0);
  CHECK(asked_services([](test::Run& run) { run.stop(); }) == 0);
  CHECK(asked_services([](test::Run& run) {
          run.stop();
          run.job()["metadata"]["annotations"][annotations::suspended] =
              "true";  // resumed by another program
        }) == 1);
  CHECK(asked_services([](test::Run& run) { run.condition("Complete"); }) == 0);
  CHECK(asked_services([](test::Run& run) { run.condition("FailureTarget"); }) == 0);
  CHECK(asked_services([](test::Run& run) { run.objects.jobs.clear(); }) == 0);
  CHECK(asked_services([](test::Run& run) {
          run.objects.owner["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:00Z";
        }) == 0);
}

TEST_CASE("a Service counts as gone if the API server answers NotFound") {
  for (const auto& [status, reason, gone] :
       {std::tuple{404, "NotFound", true}, {404, "", false}, {403, "Forbidden", false}, {200, "", false}}) {
    AsideCluster cluster(200, node_that_is("True"));
    cluster.service = status;
    cluster.service_reason = reason;
    CHECK(cluster.read().service_is_gone == gone);
    CHECK(cluster.asked_services == 1);
  }
}

TEST_CASE("last words are read from the logs of at most the eight newest pods") {
  FakeServer server;
  std::mutex mutex;
  std::vector<std::string> asked;
  server.http->Get(R"(/api/v1/namespaces/lab/pods/(.+)/log)",
                   [&](const httplib::Request& request, httplib::Response& response) {
                     const std::lock_guard lock(mutex);
                     asked.push_back(request.matches[1]);
                     CHECK(request.get_param_value("tailLines") == "10");
                     CHECK(request.get_param_value("limitBytes") == "16384");
                     response.status = request.matches[1] == "p9" ? 500 : 200;
                     if (request.matches[1] != "p8")  // the log of p8 is empty
                       response.set_content("2026-01-03T11:00:00Z fatal\n", "text/plain");
                   });
  RunObjects objects;
  for (int i = 0; i < 10; ++i) {
    const std::string name = "p" + std::to_string(i);
    objects.pods.push_back(
        {{"metadata",
          {{"name", name},
           {"uid", "uid-" + name},
           {"creationTimestamp", "2026-01-03T11:00:0" + std::to_string(i) + "Z"}}},
         {"spec", {{"initContainers", {{{"name", "fetch"}}}}, {"containers", {{{"name", "main"}}}}}},
         {"status",
          {{"phase", "Failed"},
           {"initContainerStatuses",
            {{{"name", "fetch"}, {"state", {{"terminated", {{"exitCode", 1}}}}}}}}}}});
  }
  kube::Client client(server.start());
  SideReads reads(client, "lab", SideReads::Scope::one_run);
  reads.wait({&objects}, 20s);
  std::sort(asked.begin(), asked.end());
  CHECK(asked == std::vector<std::string>{"p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"});
  CHECK(objects.last_words.size() == 6);  // failed requests and empty logs give no last words
  CHECK(objects.last_words.at(last_words_key("uid-p2", "fetch")) == "fatal\n");
  // A restarted container may have other last words.
  asked.clear();
  reads.wait({&objects}, 20s);
  CHECK(asked.empty());
  objects.pods[5]["status"]["initContainerStatuses"][0]["restartCount"] = 1;
  reads.wait({&objects}, 20s);
  CHECK(asked == std::vector<std::string>{"p5"});
}

// How often last words are requested within `time` from a container that ended `ago`.
int asked_words(std::chrono::seconds ago, std::chrono::milliseconds time) {
  AsideCluster cluster(200, node_that_is("True"));
  const Time ended = std::chrono::system_clock::now() - ago;
  json& pod = cluster.run.pod(0);
  pod["spec"]["initContainers"] = {{{"name", "fetch"}}};
  pod["status"] = {{"phase", "Failed"},
                   {"initContainerStatuses",
                    {{{"name", "fetch"},
                      {"state", {{"terminated", {{"exitCode", 1}, {"finishedAt", format_time(ended)}}}}}}}}};
  kube::Client client(cluster.server.start());
  SideReads reads(client, "lab", SideReads::Scope::one_run);
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;)
    reads.wait({&cluster.run.objects}, 20s);
  return cluster.asked_logs;
}

TEST_CASE("last words are requested again each second while more lines may come") {
  CHECK(asked_words(1h, 1200ms) == 1);
  const int asked = asked_words(0s, 1200ms);
  CHECK(asked >= 2);
  CHECK(asked <= 3);
}

}  // namespace
}  // namespace mlk
