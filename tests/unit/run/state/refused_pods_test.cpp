// Tests that a list of runs shows why the cluster refuses the pods of a run, as status does.
#include <mutex>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/run/read/find.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/state/refused_pods");

namespace mlk {
namespace {

using json = nlohmann::json;
using local::Answer;
using local::Request;

struct RefusedPods {
  test::FakeCluster cluster;
  std::mutex mutex;
  std::vector<std::string> asked;  // the field selectors of the lists of events
  int events_status = 200;

  RefusedPods() {
    cluster.before([this](const Request& request) -> std::optional<Answer> {
      if (!request.path.ends_with("/events")) return std::nullopt;
      const std::lock_guard lock(mutex);
      asked.push_back(request.parameter("fieldSelector"));
      if (events_status == 200) return std::nullopt;
      return test::refusal(events_status, "Whatever", "no");
    });
    add_run("x-abcde");
  }
  void add_run(const std::string& run, int ranks = 1) {
    cluster.ask("POST", test::config_maps_path, test::owner_of(run));
    cluster.ask("POST", test::jobs_path, test::job_of(run, "worker", ranks));
  }
  void warn(const std::string& run, const std::string& message) {
    const json job = cluster.ask("GET", test::jobs_path + "/" + run + "-worker");
    cluster.store.create(
        "events", {{"apiVersion", "v1"},
                   {"kind", "Event"},
                   {"metadata", {{"name", run + "-worker.1"}, {"namespace", "default"}}},
                   {"type", "Warning"},
                   {"reason", "FailedCreate"},
                   {"message", "Error creating: pods \"" + run + "-worker-0-x\" is forbidden: " + message},
                   {"lastTimestamp", format_time(std::chrono::system_clock::now())},
                   {"involvedObject",
                    {{"kind", "Job"},
                     {"name", run + "-worker"},
                     {"namespace", "default"},
                     {"uid", job.at("metadata").at("uid")}}}});
  }
  std::map<std::string, std::string> listed() {
    kube::Client client(cluster.config());
    std::map<std::string, std::string> why;
    for (const RunStatus& run : list_runs(client, "default", std::chrono::system_clock::now()))
      why[run.run] = run.why;
    return why;
  }
  std::string status(const std::string& run) {
    kube::Client client(cluster.config());
    return observe(fetch_run(client, "default", run), std::chrono::system_clock::now()).why;
  }
};

}  // namespace

TEST_CASE("mlk ls shows the same reason as mlk status if the cluster refuses all pods of a run") {
  RefusedPods test;
  test.add_run("y-abcde");
  test.warn("x-abcde", "no such account");
  test.warn("y-abcde", "too large");
  const std::map<std::string, std::string> why = test.listed();
  CHECK(why.at("x-abcde") == "worker/0: the cluster refuses its pods: no such account");
  CHECK(why.at("y-abcde") == "worker/0: the cluster refuses its pods: too large");
  CHECK(test.asked == std::vector<std::string>{"type!=Normal,involvedObject.kind=Job"});
  for (const auto& [run, reason] : why) CHECK(test.status(run) == reason);
}

TEST_CASE("mlk ls shows the same reason as mlk status if the cluster refuses some pods of a run") {
  RefusedPods test;
  const std::string quota =
      "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, "
      "limited: requests.nvidia.com/gpu=2";
  test.add_run("y-abcde", 4);
  for (const int rank : {0, 1})
    test.cluster.store.create("pods", test::pod_of("y-abcde", "Running", "worker", rank));
  test.warn("y-abcde", quota);
  CHECK(test.listed().at("y-abcde") == "worker/2-3: the quota of the namespace is used up: " + quota);
  CHECK(test.status("y-abcde") == test.listed().at("y-abcde"));
}

TEST_CASE("to list runs, mlk asks for events if a rank that should have a pod has none") {
  RefusedPods test;
  test.cluster.store.create("pods", test::pod_of("x-abcde", "Running"));
  test.add_run("y-abcde", 5);
  const auto set = [&](const char* part, const json& values) {
    test.cluster.store.modify("jobs", "default", "y-abcde-worker",
                              [&](json& job) { job[part].update(values); });
  };
  const auto asks = [&] {
    test.asked.clear();
    test.listed();
    return !test.asked.empty();
  };
  set("spec", {{"parallelism", 2}, {"maxFailedIndexes", 1}});
  set("status", {{"completedIndexes", "0"}, {"failedIndexes", "1"}});
  CHECK(asks());
  test.cluster.store.create("pods", test::pod_of("y-abcde", "Running", "worker", 2));
  CHECK(asks());
  test.cluster.store.create("pods", test::pod_of("y-abcde", "Failed", "worker", 3));  // a try is left
  CHECK_FALSE(asks());  // the Job runs two pods at a time
  set("status", {{"completedIndexes", "0,2-3"}});
  CHECK(asks());  // rank 4 should run now
  test.cluster.store.create("pods", test::pod_of("y-abcde", "Running", "worker", 4));
  CHECK_FALSE(asks());
}

TEST_CASE("to list runs, mlk asks for no events if each Job has pods or is not active") {
  RefusedPods test;
  test.cluster.store.create("pods", test::pod_of("x-abcde", "Running"));
  test.add_run("y-abcde");
  test.cluster.store.modify("jobs", "default", "y-abcde-worker",
                            [](json& job) { job["spec"]["suspend"] = true; });
  test.add_run("z-abcde");
  test.cluster.store.modify("jobs", "default", "z-abcde-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  CHECK(test.listed().size() == 3);
  CHECK(test.asked.empty());
}

TEST_CASE("mlk can list the runs even if the user may not read events") {
  RefusedPods test;
  test.warn("x-abcde", "no such account");
  test.events_status = 403;
  CHECK(test.listed().at("x-abcde") == "the cluster has not made its pods yet");
  test.events_status = 401;
  CHECK_THROWS_AS(test.listed(), kube::ApiError);
}

}  // namespace mlk
