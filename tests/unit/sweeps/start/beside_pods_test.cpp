// Tests that trials are tried again only after the pods of a deleted Job have ended.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/resource.h"
#include "cli/run/change/end_pods_left.h"
#include "sweeps/start/prepare_driven.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/start/beside_pods");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::PlayedControllers;
using test::Sweeper;

namespace {

const std::vector<std::string> two_rates{"lr=0.1,0.2"};

std::string sweep_of(const std::string& mode) {
  return "name: x\nmode: " + mode + "\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n";
}

// Ends each pod when mlk deletes the pod. `done` has these requests, and the requests that create Jobs, in
// order: "end POD", "make a Job".
struct Asked {
  Sweeper& sweeper;
  std::vector<std::string> done;

  explicit Asked(Sweeper& given) : sweeper(given) {
    sweeper.cluster.before([this](const local::Request& request) -> std::optional<local::Answer> {
      const std::string pods = test::pods_path + "/";
      if (request.method == "DELETE" && request.path.starts_with(pods)) {
        const std::string pod = request.path.substr(pods.size());
        done.push_back("end " + pod);
        sweeper.cluster.store.modify("pods", "default", pod,
                                     [](json& object) { object["status"]["phase"] = "Failed"; });
      }
      if (request.method == "POST" && request.path.ends_with("/jobs")) done.push_back("make a Job");
      return std::nullopt;
    });
  }
  ~Asked() { sweeper.cluster.before({}); }
};

}  // namespace

TEST_CASE("the trials of a deleted Job are started again when the pods of this Job have ended") {
  Sweeper sweeper(sweep_of("single"));
  const std::string sweep = sweeper.start(two_rates).sweep, job = sweep + "-trials-0";
  json pod = test::pod_of(sweep, "Running", "trial");
  pod["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
  pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = job;
  sweeper.cluster.store.create("pods", pod);
  sweeper.cluster.store.remove("jobs", "default", job);
  Asked asked(sweeper);
  CHECK(sweeper.start(two_rates).started == 0);
  CHECK(asked.done.empty());
  sweeper.retry_failed = true;
  CHECK(sweeper.start(two_rates).retried == 2);
  CHECK(asked.done ==
        std::vector<std::string>{"end " + pod["metadata"]["name"].get<std::string>(), "make a Job"});
}

TEST_CASE("mlk ends the pods of a deleted Job, and leaves the pods of another Job alone") {
  Sweeper sweeper(sweep_of("single"));
  const std::string sweep = sweeper.start(two_rates).sweep, gone = sweep + "-trials-0",
                    other = "other-trials";
  const auto pod_of_job = [&](const std::string& job, const std::string& name) {
    json pod = test::pod_of(sweep, "Running", "trial");
    pod["metadata"]["name"] = name;
    pod["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = job;
    return pod;
  };
  sweeper.cluster.store.create("pods", pod_of_job(gone, "old"));
  json job = *sweeper.cluster.store.find("jobs", "default", gone);
  sweeper.cluster.store.remove("jobs", "default", gone);
  std::vector<std::string> ended;
  sweeper.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
    const std::string pods = test::pods_path + "/";
    if (request.method != "DELETE" || !request.path.starts_with(pods)) return std::nullopt;
    ended.push_back(request.path.substr(pods.size()));
    if (ended.size() > 1) return std::nullopt;
    sweeper.cluster.store.modify("pods", "default", "old",
                                 [](json& object) { object["status"]["phase"] = "Failed"; });
    job["metadata"] = {{"name", other}, {"namespace", "default"}, {"labels", job["metadata"]["labels"]}};
    sweeper.cluster.store.create("jobs", job);
    sweeper.cluster.store.create("pods", pod_of_job(other, "new"));
    return std::nullopt;
  });
  kube::Client client(sweeper.cluster.config());
  const json owner = client.get(kube::resources::config_maps, "default", sweep);
  end_pods_left(client, "default", owner, sweeper.hooks());
  sweeper.cluster.before({});
  CHECK(ended == std::vector<std::string>{"old"});
}

TEST_CASE("a trial whose Job was deleted is tried again when its pods have ended") {
  Sweeper sweeper(sweep_of("allreduce"));
  std::string sweep;
  {
    const PlayedControllers controllers(sweeper.cluster, [](double) { return PlayedControllers::runs_on; });
    sweep = sweeper.drive_until_running(two_rates, 2);
  }
  const std::vector<local::Object> pods = sweeper.cluster.store.list("pods", "default");
  REQUIRE(pods.size() == 2);
  const std::string lost = pods[0]->at("metadata").at("labels").at("mlk.dev/run");
  sweeper.cluster.store.remove("jobs", "default", lost + "-worker");
  Asked asked(sweeper);
  sweeper.retry_failed = true;
  kube::Client client(sweeper.cluster.config());
  const Definition definition = sweeper.define(two_rates);
  CHECK(prepare_driven(client, sweeper.request(definition), sweeper.hooks()).retried == 1);
  CHECK(asked.done == std::vector<std::string>{"end " + lost + "-worker-0-abcde"});
}
