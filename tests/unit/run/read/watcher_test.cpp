// Tests a run that is watched while the cluster changes, and runs that are listed among other runs.
#include "cli/run/read/watcher.h"

#include <atomic>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/change/suspend.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/find.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/read/watcher");

namespace {

using mlk::Error;
using mlk::ExitCode;
using mlk::RunObjects;
using mlk::test::FakeCluster;
using nlohmann::json;
using namespace std::chrono_literals;

struct Watched : FakeCluster {
  Watched() {
    for (const char* run : {"r", "other"}) {
      store.create("configmaps", with_namespace(mlk::test::owner_of(run)));
      ask("POST", mlk::test::jobs_path, mlk::test::job_of(run));
      store.create("pods", mlk::test::pod_of(run, "Running"));
    }
    add_event("r-worker", "Warning", "about this run");
    add_event("other-worker", "Warning", "about another");
    add_event("r-worker-0-abcde", "Normal", "nothing to worry about");
  }
  static json with_namespace(json object) {
    object["metadata"]["namespace"] = "default";
    object["metadata"]["uid"] = "uid-of-" + object["metadata"]["name"].get<std::string>();
    object["metadata"]["creationTimestamp"] = "2026-01-03T12:00:00Z";
    return object;
  }
  void add_event(const std::string& about, const std::string& type, const std::string& message) {
    store.create("events", with_namespace({{"apiVersion", "v1"},
                                           {"kind", "Event"},
                                           {"metadata", {{"name", "event-" + message.substr(0, 5) + about}}},
                                           {"involvedObject", {{"name", about}, {"uid", "x"}}},
                                           {"type", type},
                                           {"reason", "FailedMount"},
                                           {"message", message}}));
  }
  void refuse(const std::string& plural, int code) {
    before([=](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (!request.path.ends_with("/" + plural)) return std::nullopt;
      return mlk::test::refusal(code, "Whatever", plural + " are not for you");
    });
  }
};

std::vector<std::string> names(const std::vector<json>& objects) {
  std::vector<std::string> all;
  for (const json& object : objects) all.push_back(mlk::kube::name_of(object));
  std::ranges::sort(all);
  return all;
}

using Names = std::vector<std::string>;

// Calls `before`, then deletes the pod while it is watched. Returns when the watcher shows the pod as failed.
void remove_pod(Watched& cluster, mlk::RunWatcher& watcher, const std::function<void()>& before = [] {}) {
  REQUIRE(eventually([&] { return watcher.synced(); }));
  watcher.objects();
  before();
  cluster.store.remove("pods", "default", "r-worker-0-abcde");
  REQUIRE(eventually([&] {
    watcher.wait_for_change(10ms);
    return watcher.objects().pods.at(0)["status"]["phase"] == "Failed";
  }));
}

}  // namespace

TEST_CASE("a watcher has the objects of its own run and the warnings about them") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  mlk::RunWatcher watcher(client, "default", "r");
  REQUIRE(eventually([&] { return watcher.synced(); }));
  CHECK(watcher.owner_exists());
  const RunObjects objects = watcher.objects();
  CHECK(mlk::kube::name_of(objects.owner) == "r");
  CHECK(names(objects.jobs) == Names{"r-worker"});
  CHECK(names(objects.pods) == Names{"r-worker-0-abcde"});
  REQUIRE(objects.events.size() == 1);
  CHECK(objects.events[0]["message"] == "about this run");
  CHECK(watcher.trouble().empty());
  const RunObjects again = watcher.read_again();
  CHECK(names(again.pods) == Names{"r-worker-0-abcde"});
  CHECK(again.events.size() == 1);
}

TEST_CASE("a watcher reports each change once") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  mlk::RunWatcher watcher(client, "default", "r");
  REQUIRE(eventually([&] { return watcher.synced(); }));
  while (watcher.wait_for_change(200ms)) {
  }
  cluster.store.modify("pods", "default", "r-worker-0-abcde",
                       [](json& pod) { pod["status"]["phase"] = "Succeeded"; });
  CHECK(watcher.wait_for_change(20s));
  CHECK(watcher.objects().pods.at(0)["status"]["phase"] == "Succeeded");
  CHECK_FALSE(watcher.wait_for_change(50ms));
}

TEST_CASE("a pod that disappears while it runs is kept as a failed pod") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  mlk::RunWatcher watcher(client, "default", "r");
  remove_pod(cluster, watcher);
  CHECK(watcher.read_again().pods.at(0)["status"]["phase"] == "Failed");
}

TEST_CASE("a watcher knows the end of a pod that disappears right after its end") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  mlk::RunWatcher watcher(client, "default", "r");
  remove_pod(cluster, watcher, [&] {
    cluster.store.modify("pods", "default", "r-worker-0-abcde",
                         [](json& pod) { pod["status"] = {{"phase", "Failed"}, {"reason", "Evicted"}}; });
  });
  CHECK(watcher.objects().pods.at(0)["status"]["reason"] == "Evicted");
}

TEST_CASE("a run does not exist any more after its owner is deleted") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  mlk::RunWatcher watcher(client, "default", "r");
  REQUIRE(eventually([&] { return watcher.synced(); }));
  cluster.store.remove("configmaps", "default", "r");
  CHECK(eventually([&] { return !watcher.owner_exists(); }));
  CHECK(watcher.objects().owner.is_null());
  CHECK_THROWS_WITH_AS(watcher.read_again(), "there is no run 'r' in namespace 'default'", Error);
}

TEST_CASE("a watcher may lack the right to read events, but not the right to read other objects") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  cluster.refuse("events", 403);
  {
    mlk::RunWatcher watcher(client, "default", "r");
    CHECK(eventually([&] { return watcher.synced(); }));
    CHECK_NOTHROW(watcher.wait_for_change(10ms));
    CHECK(watcher.objects().events.empty());
  }
  for (const char* plural : {"configmaps", "jobs", "pods"}) {
    cluster.refuse(plural, 403);
    mlk::RunWatcher watcher(client, "default", "r");
    bool refused = false;
    CHECK(eventually([&] {
      try {
        watcher.wait_for_change(10ms);
      } catch (const mlk::kube::ApiError& error) {
        refused = error.status() == 403;
      }
      return refused;
    }));
    CHECK_FALSE(watcher.synced());
  }
}

TEST_CASE("a watcher reports no trouble if the server fails only for a moment") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  std::atomic<int> refused = 0;
  cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/jobs")) return std::nullopt;
    ++refused;
    return mlk::test::refusal(500, "InternalError", "etcd is away");
  });
  mlk::RunWatcher watcher(client, "default", "r");
  REQUIRE(eventually([&] { return refused > 0; }));
  CHECK_NOTHROW(watcher.wait_for_change(10ms));
  CHECK(watcher.trouble().empty());
  CHECK_FALSE(watcher.synced());
  cluster.before({});
  CHECK(eventually([&] { return watcher.synced(); }));
}

TEST_CASE("list_runs() filters by name and tag, and puts the newest run first") {
  Watched cluster;
  cluster.store.modify("configmaps", "default", "r", [](json& owner) {
    owner["metadata"]["labels"][mlk::labels::name] = "mnist";
    owner["metadata"]["annotations"][mlk::annotations::tags] = R"(["paper"])";
    owner["metadata"]["creationTimestamp"] = "2026-01-03T11:00:00Z";
    owner["data"]["experiment"] = R"({"train":{"steps":3}})";
  });
  mlk::kube::Client client(cluster.config());
  const auto listed = [&](const mlk::RunFilter& filter) {
    Names runs;
    for (const mlk::RunStatus& status : mlk::list_runs(client, "default", mlk::Time{}, filter)) {
      CHECK(status.experiment.is_null() == !filter.configured);
      CHECK(status.ranks.size() == (filter.name.empty() ? 1 : 0));  // these Jobs have no label with the name
      for (const mlk::RankStatus& rank : status.ranks) CHECK(rank.pod == status.run + "-worker-0-abcde");
      runs.push_back(status.run);
    }
    CHECK(mlk::list_names(client, "default", filter) == runs);
    return runs;
  };
  CHECK(listed({}) == Names{"other", "r"});
  CHECK(listed({.name = "mnist", .tag = "", .configured = false}) == Names{"r"});
  CHECK(listed({.name = "", .tag = "paper", .configured = false}) == Names{"r"});
  CHECK(listed({.name = "x", .tag = "paper", .configured = false}).empty());
  CHECK(listed({.name = "no label!", .tag = "", .configured = false}).empty());
  CHECK(listed({.name = "", .tag = "", .configured = true}) == Names{"other", "r"});
}

TEST_CASE("find_run() finds a run by the name of its experiment") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  CHECK(mlk::find_run(client, "default", "r").run == "r");
  CHECK(mlk::find_run(client, "default", "x").run == "r");  // made in the same second: the later name counts
  try {
    mlk::find_run(client, "default", "");
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    CHECK(error.hint() == "list the runs with: mlk ls");
  }
}

TEST_CASE("the pods are read again if their Job has ended after they were read") {
  Watched cluster;
  const auto end = [&] {
    cluster.store.modify("jobs", "default", "r-worker", [](json& job) {
      job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
    });
    cluster.store.modify("pods", "default", "r-worker-0-abcde",
                         [](json& pod) { pod["status"]["phase"] = "Succeeded"; });
  };
  std::atomic<int> lists = 0;
  cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/pods") || ++lists > 1) return std::nullopt;
    mlk::local::Answer early;
    early.body =
        json{{"kind", "PodList"}, {"apiVersion", "v1"}, {"items", {mlk::test::pod_of("r", "Running")}}}
            .dump();
    return early;
  });
  end();
  mlk::kube::Client client(cluster.config());
  const RunObjects objects = mlk::fetch_run(client, "default", "r");
  CHECK(lists == 2);
  CHECK(objects.pods.at(0)["status"]["phase"] == "Succeeded");
}

TEST_CASE("suspend_what_goes_on() suspends only the Jobs that would continue") {
  Watched cluster;
  cluster.ask("POST", mlk::test::jobs_path, mlk::test::job_of("r", "server"));
  cluster.store.modify("jobs", "default", "r-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  mlk::kube::Client client(cluster.config());
  const RunObjects objects = mlk::fetch_run(client, "default", "r");
  CHECK_FALSE(mlk::suspend_what_goes_on(client, "default", objects));
  CHECK(cluster.store.get("jobs", "default", "r-server")->at("spec").at("suspend") == true);
  CHECK(cluster.store.get("jobs", "default", "r-worker")->at("spec").at("suspend") == false);
  cluster.refuse("r-server", 403);
  const std::optional<std::string> problem = mlk::suspend_what_goes_on(client, "default", objects);
  REQUIRE(problem);
  CHECK(problem->find("not for you") != std::string::npos);
}

TEST_CASE("a watcher throws if the server answers 401 or 404 for the owner, the Jobs or the pods") {
  for (const char* plural : {"configmaps", "jobs", "pods"}) {
    for (const int status : {401, 404}) {
      Watched cluster;
      mlk::kube::Client client(cluster.config());
      cluster.refuse(plural, status);
      mlk::RunWatcher watcher(client, "default", "r");
      int thrown = 0;
      CHECK(eventually([&] {
        try {
          watcher.wait_for_change(10ms);
        } catch (const mlk::kube::ApiError& error) {
          thrown = error.status();
        }
        return thrown != 0;
      }));
      CHECK(thrown == status);
    }
  }
}

TEST_CASE("a missing run is reported with the command that lists the runs") {
  Watched cluster;
  mlk::kube::Client client(cluster.config());
  try {
    mlk::fetch_run(client, "default", "absent");
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::not_found);
    CHECK(std::string(error.what()) == "there is no run 'absent' in namespace 'default'");
    CHECK(error.hint() == "list them with: mlk ls");
  }
}
