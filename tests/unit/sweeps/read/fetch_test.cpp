#include "sweeps/read/fetch.h"

#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/start/prepare_driven.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/read/fetch");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

constexpr char fetched_experiment[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1}\nsweep: {parallel: 2, objective: maximize "
    "accuracy, max_failures: 2000}\n";

// The field selectors of all list requests that read_sweep() sends for pods, or for another kind.
std::vector<std::string> lists_of(Sweeper& sweeper, const std::string& sweep, Harvest harvest,
                                  const std::string& kind = "pods") {
  std::vector<std::string> selectors;
  std::mutex mutex;
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    const std::lock_guard lock(mutex);
    const auto selector = asked.query.find("fieldSelector");
    if (asked.path.ends_with("/" + kind) && asked.query.count("continue") == 0)
      selectors.push_back(selector == asked.query.end() ? "" : selector->second);
    return std::nullopt;
  });
  kube::Client client(sweeper.cluster.config());
  read_sweep(client, "default", sweep, harvest);
  sweeper.cluster.before({});
  return selectors;
}

void finish_job(Sweeper& sweeper, const std::string& job, const std::string& completed) {
  const json status = {{"completedIndexes", completed},
                       {"conditions", {{{"type", "Complete"}, {"status", "True"}}}}};
  sweeper.cluster.ask("PATCH", test::jobs_path + "/" + job + "/status", {{"status", status}},
                      "application/merge-patch+json");
}

// Adds pods that have reported results, each result better than the one before.
void add_pods(Sweeper& sweeper, const std::string& sweep, int count) {
  for (int i = 0; i < count; ++i) {
    json pod = test::pod_of(sweep, "Succeeded", "trial", i);
    pod["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = sweep + "-trials-0";
    const json result = {{"schema", 1}, {"step", 1}, {"metrics", {{"accuracy", i}}}, {"done", true}};
    pod["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", {{"terminated", {{"exitCode", 0}, {"message", result.dump()}}}}}}};
    sweeper.cluster.store.create("pods", pod);
  }
}

}  // namespace

TEST_CASE("mlk lists no pods of an ended large sweep if the ledger has all results") {
  Sweeper sweeper(fetched_experiment);
  const std::string few = sweeper.start({"steps=1..3"}).sweep;
  CHECK(lists_of(sweeper, few, Harvest::running) == std::vector<std::string>{""});

  const std::string many = sweeper.start({"steps=1..1001", "lr=0.1"}).sweep;
  const std::vector<std::string> live{"status.phase=Running", "status.phase=Pending"};
  CHECK(lists_of(sweeper, many, Harvest::running) == live);
  CHECK(lists_of(sweeper, many, Harvest::running, "events") == std::vector<std::string>{"type!=Normal"});
  CHECK(lists_of(sweeper, many, Harvest::all) == std::vector<std::string>{""});

  // The sweep has ended. Until mlk reads the results, only the pods have them.
  finish_job(sweeper, many + "-trials-0", "0-1000");
  CHECK(lists_of(sweeper, many, Harvest::running) == live);
  CHECK(lists_of(sweeper, many, Harvest::running, "events").empty());
  CHECK(lists_of(sweeper, many, Harvest::all) == std::vector<std::string>{""});
  // The trials have no results yet and may still get them, so their pods are listed again.
  CHECK(lists_of(sweeper, many, Harvest::all) == std::vector<std::string>{""});
  add_pods(sweeper, many, 1001);
  CHECK(lists_of(sweeper, many, Harvest::all) == std::vector<std::string>{""});
  CHECK(lists_of(sweeper, many, Harvest::all).empty());
  CHECK(lists_of(sweeper, many, Harvest::running).empty());
  kube::Client client(sweeper.cluster.config());
  const SweepStatus status = read_sweep(client, "default", many, Harvest::running);
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.counts.succeeded == 1001);
  REQUIRE(best_of(status) != nullptr);
  CHECK(best_of(status)->number == 1000);
}

// A sweep of three trials that a driver has to start.
std::string prepare_three(Sweeper& sweeper) {
  kube::Client client(sweeper.cluster.config());
  const Definition sweep = sweeper.define({"steps=1..3"});
  prepare_driven(client, sweeper.request(sweep), sweeper.hooks());
  return sweep.identity.run;
}

TEST_CASE("mlk reads the Lease of a sweep if the sweep needs a driver to start its trials") {
  Sweeper sweeper(fetched_experiment);
  const std::string driven = prepare_three(sweeper);
  CHECK(lists_of(sweeper, driven, Harvest::running, "leases/" + driven).size() == 1);
  CHECK(lists_of(sweeper, driven, Harvest::all, "leases/" + driven).size() == 1);
  sweeper.cluster.store.modify("configmaps", "default", driven, [](json& owner) {
    owner["metadata"]["annotations"][annotations::phase] = "Succeeded";
  });
  CHECK(lists_of(sweeper, driven, Harvest::running, "leases/" + driven).empty());
  Sweeper other(fetched_experiment);
  const std::string by_cluster = other.start({"steps=1..3"}).sweep;
  CHECK(lists_of(other, by_cluster, Harvest::running, "leases/" + by_cluster).empty());
}

TEST_CASE(
    "if mlk reads that the Lease of a sweep has no holder, the status says that nobody drives the sweep") {
  Sweeper sweeper(fetched_experiment);
  const std::string sweep = prepare_three(sweeper);
  sweeper.cluster.ask("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
                      {{"apiVersion", "coordination.k8s.io/v1"},
                       {"kind", "Lease"},
                       {"metadata", {{"name", sweep}}},
                       {"spec", {{"holderIdentity", ""}}}});
  kube::Client client(sweeper.cluster.config());
  const auto why = [&] { return read_sweep(client, "default", sweep, Harvest::running).why; };
  CHECK(why() == "nobody drives it; 3 of 3 trials wait until its mlk sweep command is typed again");
  sweeper.cluster.before([](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.path.find("/leases/") == std::string::npos) return std::nullopt;
    return test::refusal(403, "Forbidden", "not for you");
  });
  CHECK(why() == "no trial runs; its mlk sweep command starts them when it is typed again");
}

TEST_CASE("slim() removes the parts of an object that mlk does not use, such as managedFields") {
  json job = test::job_of("x-abcde");
  job["metadata"]["managedFields"] = json::array({{{"manager", "mlk"}}});
  const std::string name = job["metadata"]["name"];
  slim(job);
  CHECK_FALSE(job["spec"].contains("template"));
  CHECK_FALSE(job["metadata"].contains("managedFields"));
  CHECK(job["spec"]["completions"] == 1);
  CHECK(job["metadata"]["name"] == name);
  json pod = test::pod_of("x-abcde", "Running");
  pod["spec"]["volumes"] = json::array({json::object()});
  slim(pod);
  CHECK(pod["spec"] == json{{"nodeName", "n1"}, {"containers", {{{"name", "main"}, {"image", "i"}}}}});
  CHECK(pod["status"]["phase"] == "Running");
  for (json odd : {json(), json(3), json::object(), json{{"metadata", 1}, {"spec", 2}},
                   json{{"spec", {{"containers", 5}, {"nodeName", 7}}}}}) {
    slim(odd);
  }
}

TEST_CASE("mlk reads the log of the program's container, even if a proxy is the first container of the pod") {
  Sweeper sweeper(fetched_experiment);
  const std::string sweep = sweeper.start({"steps=1..2"}).sweep;
  json pod = test::pod_of(sweep, "Running", "trial", 0);
  pod["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
  pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = sweep + "-trials-0";
  pod["spec"]["containers"] = {{{"name", "proxy"}, {"image", "p"}}, {{"name", "main"}, {"image", "i"}}};
  const json running = {{"running", {{"startedAt", "2026-11-23T10:00:01Z"}}}};
  pod["status"]["containerStatuses"] = {{{"name", "proxy"}, {"state", running}},
                                        {{"name", "main"}, {"state", running}}};
  sweeper.cluster.store.create("pods", pod);
  sweeper.cluster.before([](const local::Request& asked) -> std::optional<local::Answer> {
    if (!asked.path.ends_with("/log")) return std::nullopt;
    local::Answer answer;
    answer.content_type = "text/plain";
    const bool of_program = asked.parameter("container") == "main";
    answer.body = std::string("2026-11-23T10:00:02.000000000Z mlk step=") + (of_program ? "7" : "1") +
                  " accuracy=0.5\n";
    return answer;
  });
  kube::Client client(sweeper.cluster.config());
  CHECK(read_sweep(client, "default", sweep, Harvest::running).trials.at(0).step == 7);
}
