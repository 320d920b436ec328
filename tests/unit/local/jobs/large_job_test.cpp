// Jobs as sweeps create them: thousands of indexes with a few running at a time, hundreds of failures, and
// ended pods that are deleted when there are too many.
#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "cli/local/garbage.h"
#include "cli/local/jobs/job_pod.h"
#include "cli/local/jobs/reconcile.h"
#include "cli/util/indexes.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/jobs/large_job");

namespace mlk::local {
namespace {

namespace large_jobs {

using namespace samples;

const json sweep_spec = {
    {"parallelism", 2},
    {"backoffLimitPerIndex", 2},
    {"podFailurePolicy",
     {{"rules", {{{"action", "FailIndex"}, {"onExitCodes", {{"operator", "In"}, {"values", {64}}}}}}}}}};

json sweep_job(int completions, const json& patch = json::object()) {
  json whole = job(completions, sweep_spec);
  whole["spec"].merge_patch(patch);
  return whole;
}

// Simulates a cluster with its clock and its kubelet. Trials end one after the other, and every third trial
// ends with the exit code 64.
struct Played {
  explicit Played(json whole) : job(std::move(whole)) {}

  json job;
  std::vector<json> pods;
  Time now = noon;
  std::size_t most_active = 0;
  std::multiset<int> started;

  std::size_t active() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        pods, [](const json& pod) { return pod.at("status").at("phase") == "Running"; }));
  }
  void apply(const JobActions& actions) {
    job["status"] = actions.status;
    for (json& pod : pods) {
      const std::string name = pod.at("metadata").at("name");
      if (std::ranges::count(actions.release, name) != 0) pod["metadata"].erase("finalizers");
    }
    std::erase_if(pods, [&](const json& pod) {
      return std::ranges::count(actions.remove, pod.at("metadata").at("name").get<std::string>()) != 0;
    });
    for (const NewPod& made : actions.create) {
      started.insert(made.index);
      pods.push_back(pod(made.index, "Running", 0, made.failures));
    }
    most_active = std::max(most_active, active());
  }
  void step() {
    std::vector<const json*> pointers;
    for (const json& pod : pods) pointers.push_back(&pod);
    apply(reconcile(job, pointers, now));
    now += std::chrono::seconds(1);
    // Removes ended pods, as limit_finished_pods() does.
    while (std::ranges::count_if(pods, ended_and_counted) > 10)
      pods.erase(std::ranges::find_if(pods, ended_and_counted));
  }
  static bool ended_and_counted(const json& pod) {
    return pod.at("status").at("phase") != "Running" && !pod.at("metadata").contains("finalizers");
  }
  void end_one() {
    const auto running =
        std::ranges::find_if(pods, [](const json& pod) { return pod.at("status").at("phase") == "Running"; });
    if (running == pods.end()) return;
    const int index =
        std::stoi(running->at("metadata").at("annotations").at(index_annotation).get<std::string>());
    json ended = index % 3 == 0 ? pod(index, "Failed", 64) : pod(index, "Succeeded");
    (*running)["status"] = ended.at("status");
  }
  bool run_until(std::size_t pods_started) {
    for (int i = 0; i < 100'000 && started.size() < pods_started && !is_finished(job); ++i) {
      step();
      end_one();
    }
    return started.size() >= pods_started;
  }
  json condition() const {
    for (const json& condition : job.at("status").value("conditions", json::array())) {
      if (condition.at("type") == "Failed") return condition.at("reason");
    }
    return nullptr;
  }
};

}  // namespace large_jobs

TEST_CASE("a large Job starts the lowest indexes that have not begun yet") {
  using namespace large_jobs;
  json large = sweep_job(20'000, {{"parallelism", 4}});
  large["status"]["completedIndexes"] = "0-9999,10001,10004-10009";
  large["status"]["failedIndexes"] = "10000,10002,10010-10300";
  const json running = pod(10'003, "Running");
  const JobActions actions = reconcile(large, {&running}, noon);
  std::vector<int> made;
  for (const NewPod& pod : actions.create) made.push_back(pod.index);
  CHECK(made == std::vector<int>{10'301, 10'302, 10'303});
  CHECK(actions.status.at("completedIndexes") == "0-9999,10001,10004-10009");
  CHECK(actions.status.at("failedIndexes") == "10000,10002,10010-10300");
  CHECK(actions.status.at("succeeded") == 10'007);
  CHECK(actions.status.at("active") == 4);
}

TEST_CASE("a large Job counts each trial once, even if the pods of ended trials are deleted") {
  using namespace large_jobs;
  Played played(sweep_job(300));
  for (int i = 0; i < 10'000 && !is_finished(played.job); ++i) {
    played.step();
    played.end_one();
  }
  CHECK(played.condition() == "FailedIndexes");
  const json& status = played.job.at("status");
  CHECK(status.at("failed") == 100);
  CHECK(status.at("succeeded") == 200);
  CHECK(mlk::Indexes::parse(status.at("failedIndexes").get<std::string>())->size() == 100);
  CHECK(status.at("completedIndexes").get<std::string>().starts_with("1,2,4,5,"));
  CHECK(played.started.size() == 300);
  CHECK(played.most_active == 2);
}

TEST_CASE("a large Job ends when more of its trials fail than maxFailedIndexes allows") {
  using namespace large_jobs;
  Played played(sweep_job(2000, {{"maxFailedIndexes", 99}}));
  for (int i = 0; i < 10'000 && !is_finished(played.job); ++i) {
    played.step();
    played.end_one();
  }
  CHECK(played.condition() == "MaxFailedIndexesExceeded");
  CHECK(mlk::Indexes::parse(played.job.at("status").at("failedIndexes").get<std::string>())->size() == 100);
  CHECK(played.job.at("status").at("succeeded").get<int>() >= 196);
  CHECK(played.active() == 0);
}

TEST_CASE("a large Job runs each trial, even if it is suspended or its parallelism changes meanwhile") {
  using namespace large_jobs;
  Played played(sweep_job(200, {{"parallelism", 8}}));
  REQUIRE(played.run_until(40));
  played.job["spec"]["parallelism"] = 1;
  for (int i = 0; i < 3; ++i) played.step();
  CHECK(played.active() == 1);
  REQUIRE(played.run_until(60));
  played.job["spec"]["suspend"] = true;
  for (int i = 0; i < 3; ++i) played.step();
  CHECK(played.active() == 0);
  CHECK(played.job.at("status").value("active", 0) == 0);
  played.job["spec"]["suspend"] = false;
  played.job["spec"]["parallelism"] = 5;
  played.most_active = 0;
  for (int i = 0; i < 10'000 && !is_finished(played.job); ++i) {
    played.step();
    played.end_one();
  }
  CHECK(played.most_active == 5);
  const json& status = played.job.at("status");
  CHECK(status.at("succeeded") == 133);
  CHECK(status.at("failed") == 67);
  CHECK(std::set<int>(played.started.begin(), played.started.end()).size() == 200);
}

TEST_CASE("limit_finished_pods() deletes the oldest ended pods, but no pod that still has a finalizer") {
  const samples::Folder folder;
  Store store(folder.path());
  const auto create = [&](const std::string& name, const char* phase, const char* made) {
    store.create("pods", {{"metadata",
                           {{"name", name}, {"namespace", "ns"}, {"uid", name}, {"creationTimestamp", made}}},
                          {"status", {{"phase", phase}}}});
  };
  create("e", "Succeeded", "2026-11-21T12:00:01Z");
  create("d", "Failed", "2026-11-21T12:00:02Z");
  create("c", "Succeeded", "2026-11-21T12:00:03Z");
  create("b", "Succeeded", "2026-11-21T12:00:03Z");
  create("old", "Running", "2026-11-21T11:00:00Z");
  create("waiting", "Pending", "2026-11-21T11:00:00Z");
  create("held", "Failed", "2026-11-21T11:00:00Z");
  store.modify("pods", "ns", "held", [](json& pod) { pod["metadata"]["finalizers"] = {"f"}; });
  const auto left = [&] {
    std::string names;
    for (const Object& pod : store.list("pods"))
      names += pod->at("metadata").at("name").get<std::string>() + " ";
    return names;
  };
  limit_finished_pods(store, 4);
  CHECK(left() == "b c d e held old waiting ");
  limit_finished_pods(store, 2);
  CHECK(left() == "b c held old waiting ");
  store.modify("pods", "ns", "held", [](json& pod) { pod["metadata"].erase("finalizers"); });
  limit_finished_pods(store, 2);
  CHECK(left() == "b c old waiting ");
  limit_finished_pods(store, 1);
  CHECK(left() == "c old waiting ");
}

}  // namespace
}  // namespace mlk::local
