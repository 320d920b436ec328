// Tests how objects are grouped by run, and what a name means if a run and a sweep share it.
#include "cli/run/read/find.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/owner.h"

TEST_SUITE_BEGIN("run/read/find");

namespace mlk {
namespace {

using json = nlohmann::json;

json object_of(const std::string& name, const std::string& run, const std::string& sweep = "",
               const std::string& role = "worker", const std::string& created = "2026-01-03T00:00:00Z") {
  json out = {{"metadata",
               {{"name", name},
                {"uid", "uid-" + name},
                {"creationTimestamp", created},
                {"labels", {{"mlk.dev/run", run}, {"mlk.dev/role", role}, {"mlk.dev/name", "lr"}}}}}};
  if (!sweep.empty()) out["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
  return out;
}

// "run: jobs / pods" of each run.
std::vector<std::string> groups_of(const std::vector<json>& owners, const std::vector<json>& jobs,
                                   const std::vector<json>& pods) {
  std::vector<std::string> out;
  for (const RunObjects& run : group_by_run(owners, jobs, pods)) {
    std::string text = kube::name_of(run.owner) + ":";
    for (const json& job : run.jobs) text += " " + kube::name_of(job);
    text += " /";
    for (const json& pod : run.pods) text += " " + kube::name_of(pod);
    out.push_back(text);
  }
  return out;
}

using Groups = std::vector<std::string>;

TEST_CASE("group_by_run() gives each Job and pod to the run that it names") {
  CHECK(groups_of({object_of("a", "a"), object_of("b", "b"), object_of("b-files", "b")},
                  {object_of("b-worker", "b"), object_of("a-worker", "a"), object_of("c-worker", "c")},
                  {object_of("a-0", "a"), object_of("c-0", "c"), object_of("a-1", "a")}) ==
        Groups{"a: a-worker / a-0 a-1", "b: b-worker /"});
  const std::vector<json> sweep = {object_of("s", "s", "s"), object_of("t", "t", "s")};
  CHECK(groups_of(sweep, {object_of("t-worker", "t", "s"), object_of("s-worker", "s", "s")},
                  {object_of("t-0", "t", "s"), object_of("s-0", "s", "s")}) ==
        Groups{"s: t-worker s-worker / s-0", "t: t-worker / t-0"});
}

TEST_CASE("group_by_run() leaves out the driver of a sweep, but not the role `driver` of a trial") {
  CHECK(is_driver(object_of("s-driver", "s", "s", "driver")));
  CHECK_FALSE(is_driver(object_of("s-worker", "s", "s", "worker")));
  CHECK_FALSE(is_driver(object_of("t-driver", "t", "s", "driver")));
  CHECK_FALSE(is_driver(object_of("r-driver", "r", "", "driver")));
  CHECK(groups_of({object_of("s", "s", "s")},
                  {object_of("s-driver", "s", "s", "driver"), object_of("s-x", "s", "s")},
                  {object_of("s-driver-0", "s", "s", "driver"), object_of("s-x-0", "s", "s")}) ==
        Groups{"s: s-x / s-x-0"});
}

TEST_CASE("is_sweep() accepts only the owner of a sweep, and is_trial() only the owner of a trial") {
  CHECK(is_sweep(object_of("s", "s", "s")));
  CHECK_FALSE(is_sweep(object_of("s", "s")));
  CHECK_FALSE(is_sweep(object_of("s-files", "s", "s")));
  CHECK_FALSE(is_sweep(object_of("", "", "")));
  CHECK(is_trial(object_of("t", "t", "s")));
  CHECK_FALSE(is_trial(object_of("t", "t")));
  CHECK_FALSE(is_trial(object_of("t-files", "t", "s")));
}

TEST_CASE("choose_run() takes the newest sweep of an experiment if sweeps are preferred") {
  const std::string early = "2026-01-03T00:00:00Z", late = "2026-01-04T00:00:00Z";
  std::vector<json> owners = {object_of("lr-s1", "lr-s1", "lr-s1", "", early),
                              object_of("lr-s2", "lr-s2", "lr-s2", "", "2026-01-03T06:00:00Z"),
                              object_of("lr-run", "lr-run", "", "", late),
                              object_of("lr-t", "lr-t", "lr-s2", "", "2026-01-05T00:00:00Z")};
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(choose_run(owners, "lab", "lr").run == "lr-run");
    CHECK(choose_run(owners, "lab", "lr", Prefer::sweeps).run == "lr-s2");
    CHECK(choose_run(owners, "lab", "lr/0").run == "lr-s2");
    CHECK(choose_run(owners, "lab", "lr/0").trial == 0);
    CHECK(choose_run(owners, "lab", "lr-run", Prefer::sweeps).run == "lr-run");
    CHECK(choose_run(owners, "lab", "lr-s1").is_sweep);
    std::reverse(owners.begin(), owners.end());
  }
}

TEST_CASE("choose_run() suggests `mlk results` if the word after the slash is not a trial number") {
  const std::vector<json> owners = {object_of("s", "s", "s"), object_of("r", "r")};
  const auto refused = [&](const std::string& typed) {
    try {
      (void)choose_run(owners, "lab", typed);
    } catch (const Error& error) {
      return std::pair(error.code(), error.hint());
    }
    return std::pair(ExitCode::ok, std::string());
  };
  CHECK(refused("s/x") == std::pair(ExitCode::not_found, std::string("its trials: mlk results s")));
  CHECK(refused("s/-1") == std::pair(ExitCode::not_found, std::string("its trials: mlk results s")));
  CHECK(refused("r/1") == std::pair(ExitCode::usage, std::string()));
  CHECK(refused("s/0").first == ExitCode::ok);
  CHECK(refused("far away") == std::pair(ExitCode::not_found, std::string()));
}

TEST_CASE("observe_all() calls `of_sweep` for each sweep, but for no run") {
  const std::vector<RunObjects> runs = group_by_run({object_of("s", "s", "s", "", "2026-01-03T00:00:00Z"),
                                                     object_of("r", "r", "", "", "2026-01-04T00:00:00Z")},
                                                    {}, {});
  std::vector<std::string> asked;
  const auto statuses = observe_all(runs, Time{}, [&](const RunObjects& sweep) {
    asked.push_back(kube::name_of(sweep.owner));
    RunStatus status;
    status.run = "of the sweep";
    return status;
  });
  REQUIRE(statuses.size() == 2);
  CHECK(statuses[0].run == "r");
  CHECK(statuses[1].run == "of the sweep");
  CHECK(asked == std::vector<std::string>{"s"});
  CHECK(observe_all(runs, Time{}).at(1).run == "s");
}

TEST_CASE("pods_are_older() is true if a Job has ended but one of its pods has not") {
  RunObjects objects;
  objects.jobs = {object_of("r-a", "r"), object_of("r-b", "r")};
  objects.pods = {object_of("r-0", "r")};
  objects.pods[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] = "r-a";
  const auto older = [&](std::size_t job, const char* type, const char* phase) {
    RunObjects changed = objects;
    changed.jobs[job]["status"]["conditions"] = {{{"type", type}, {"status", "True"}}};
    changed.pods[0]["status"]["phase"] = phase;
    return pods_are_older(changed);
  };
  CHECK(older(0, "Complete", "Running"));
  CHECK(older(0, "Failed", "Pending"));
  CHECK_FALSE(older(0, "Complete", "Succeeded"));
  CHECK_FALSE(older(0, "Complete", "Failed"));
  CHECK_FALSE(older(0, "FailureTarget", "Running"));
  CHECK_FALSE(older(1, "Complete", "Running"));
}

}  // namespace
}  // namespace mlk
