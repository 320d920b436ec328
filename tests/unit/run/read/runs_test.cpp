// Tests how a run is found by its typed name, how all runs are observed, and how gone pods are remembered.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/run/read/watcher.h"
#include "tests/unit/run/fixture.h"

TEST_SUITE_BEGIN("run/read/runs");

namespace mlk {
namespace {

using json = nlohmann::json;
using test::Fixture;
using test::load;

json owner(const std::string& run, const std::string& name, const std::string& created) {
  return {{"metadata",
           {{"name", run},
            {"creationTimestamp", created},
            {"labels", {{"mlk.dev/run", run}, {"mlk.dev/name", name}}}}}};
}

TEST_CASE("a name means the run with this name, else the newest run of the experiment with this name") {
  const std::vector<json> owners{owner("mnist-aaaaa", "mnist", "2026-01-03T00:00:00Z"),
                                 owner("mnist-bbbbb", "mnist", "2026-01-05T00:00:00Z"),
                                 owner("mnist", "other", "2026-01-01T00:00:00Z"),
                                 owner("cifar-aaaaa", "cifar", "2026-01-09T00:00:00Z")};
  CHECK(choose_run(owners, "lab", "mnist-aaaaa").run == "mnist-aaaaa");
  CHECK(choose_run(owners, "lab", "mnist").run == "mnist");
  CHECK(choose_run({owners[0], owners[1], owners[3]}, "lab", "mnist").run == "mnist-bbbbb");
  CHECK(choose_run({owners[1], owners[0], owners[3]}, "lab", "mnist").run == "mnist-bbbbb");
}

TEST_CASE("the name of an experiment means my newest run, and the newest of others only if none is mine") {
  const auto by = [](json run, const std::string& name) {
    run["metadata"]["annotations"] = {{"mlk.dev/submitter", annotation_text({"login", name})}};
    return run;
  };
  const std::vector<json> owners{by(owner("mnist-aaaaa", "mnist", "2026-01-01T00:00:00Z"), "anna"),
                                 by(owner("mnist-bbbbb", "mnist", "2026-01-02T00:00:00Z"), "anna"),
                                 by(owner("mnist-ccccc", "mnist", "2026-01-03T00:00:00Z"), "ben")};
  const auto chosen = [&](const std::string& me) {
    return choose_run(owners, "lab", "mnist", Prefer::newest, {{"login", me}, ""});
  };
  CHECK(chosen("anna").run == "mnist-bbbbb");
  CHECK(chosen("ben").run == "mnist-ccccc");
  CHECK(chosen("carl").run == "mnist-ccccc");
  CHECK(chosen("carl").submitter.name == "ben");
  CHECK(choose_run(owners, "lab", "mnist-ccccc", Prefer::newest, {{"login", "anna"}, ""}).run ==
        "mnist-ccccc");
}

TEST_CASE("choose_run() passes over newer runs if sweeps are preferred") {
  json older = owner("mnist-aaaaa", "mnist", "2026-01-01T00:00:00Z"),
       sweep = owner("mnist-bbbbb", "mnist", "2026-01-03T00:00:00Z");
  older["metadata"]["labels"]["mlk.dev/sweep"] = "mnist-aaaaa";
  sweep["metadata"]["labels"]["mlk.dev/sweep"] = "mnist-bbbbb";
  const std::vector<json> owners{older, sweep, owner("mnist-ccccc", "mnist", "2026-01-05T00:00:00Z")};
  CHECK(choose_run(owners, "lab", "mnist").run == "mnist-ccccc");
  CHECK(choose_run(owners, "lab", "mnist", Prefer::sweeps).run == "mnist-bbbbb");
  CHECK(choose_run(owners, "lab", "mnist/3").run == "mnist-bbbbb");
  CHECK(choose_run(owners, "lab", "mnist-ccccc", Prefer::sweeps).run == "mnist-ccccc");
  CHECK(choose_run({owners[2]}, "lab", "mnist", Prefer::sweeps).run == "mnist-ccccc");
}

TEST_CASE("an unknown name of a run gets the nearest name as a hint") {
  json files = owner("mnist-aaaaa-files", "mnist", "2026-01-03T00:00:00Z");
  files["metadata"]["labels"]["mlk.dev/run"] = "mnist-aaaaa";
  const std::vector<json> owners{files, owner("digits-aaaaa", "digits", "2026-01-03T00:00:00Z")};
  const auto refused = [&](const std::string& typed, const std::string& hint) {
    try {
      choose_run(owners, "lab", typed);
      FAIL("found");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::not_found);
      CHECK(error.what() == "there is no run '" + typed + "' in namespace 'lab'");
      CHECK(error.hint() == hint);
    }
  };
  refused("mnist-aaaaa-files", "");
  refused("digit", "did you mean 'digits'?");
  refused("digits-aaaab", "did you mean 'digits-aaaaa'?");
}

TEST_CASE("NAME/NUMBER means only a trial of a sweep") {
  json sweep = owner("lr-aaaaa", "lr", "2026-01-03T00:00:00Z");
  sweep["metadata"]["labels"]["mlk.dev/sweep"] = "lr-aaaaa";
  json trial = owner("lr-aaaaa-cdefg", "lr", "2026-01-04T00:00:00Z");  // a run that is a trial of the sweep
  trial["metadata"]["labels"]["mlk.dev/sweep"] = "lr-aaaaa";
  const std::vector<json> owners{sweep, trial, owner("digits-aaaaa", "digits", "2026-01-03T00:00:00Z")};
  const RunAddress address = choose_run(owners, "lab", "lr/7");
  CHECK(address.run == "lr-aaaaa");
  CHECK(address.is_sweep);
  CHECK(address.trial == 7);
  CHECK_FALSE(choose_run(owners, "lab", "lr-aaaaa").trial.has_value());
  CHECK_FALSE(choose_run(owners, "lab", "digits").is_sweep);
  CHECK_FALSE(is_sweep(trial));
  CHECK(is_trial(trial));
  CHECK_FALSE(is_trial(sweep));
  CHECK(choose_run(owners, "lab", "lr").run == "lr-aaaaa");
  CHECK(choose_run(owners, "lab", "lr-aaaaa-cdefg").run == "lr-aaaaa-cdefg");
  CHECK_THROWS_WITH_AS(choose_run(owners, "lab", "digits/1"), "digits-aaaaa is no sweep: it has no trials",
                       Error);
  CHECK_THROWS_WITH_AS(choose_run(owners, "lab", "lr/x"), "'x' is no number of a trial", Error);
  CHECK_THROWS_WITH_AS(choose_run(owners, "lab", "lr/"), "'' is no number of a trial", Error);
  CHECK_THROWS_WITH_AS(choose_run(owners, "lab", "l/1"), "there is no run 'l/1' in namespace 'lab'", Error);
}

TEST_CASE("pods_are_older() is true if a Job has ended but its pods still run") {
  RunObjects objects = load("succeeded").objects;
  CHECK(!pods_are_older(objects));
  for (json& pod : objects.pods) pod["status"]["phase"] = "Running";
  CHECK(pods_are_older(objects));
  CHECK(!pods_are_older(load("running").objects));
}

TEST_CASE("observe_all() gives each run its own objects, and lists the newest run first") {
  std::vector<json> owners, jobs, pods;
  const Time now = load("succeeded").now;
  std::map<std::string, Phase> expected;
  for (const char* name : {"succeeded", "running", "failed_exit_code", "unschedulable"}) {
    const Fixture fixture = load(name);
    const RunObjects& objects = fixture.objects;
    expected[kube::name_of(objects.owner)] = fixture.observed().phase;
    owners.push_back(objects.owner);
    jobs.insert(jobs.begin(), objects.jobs.begin(), objects.jobs.end());
    pods.insert(pods.begin(), objects.pods.begin(), objects.pods.end());
  }
  const std::vector<RunStatus> runs = observe_all(group_by_run(owners, jobs, pods), now);
  REQUIRE(runs.size() == expected.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    REQUIRE(expected.count(runs[i].run) == 1);
    CHECK(to_string(runs[i].phase) == to_string(expected[runs[i].run]));
    if (i > 0) CHECK(runs[i].created <= runs[i - 1].created);
    expected.erase(runs[i].run);
  }
  // Jobs and pods without an owner do not form a run.
  CHECK(observe_all(group_by_run({}, jobs, pods), now).empty());
}

TEST_CASE("has_tag() matches a whole tag, or the part before the '='") {
  json tagged = owner("mnist-aaaaa", "mnist", "2026-01-03T00:00:00Z");
  CHECK_FALSE(has_tag(tagged, "paper"));
  tagged["metadata"]["annotations"]["mlk.dev/tags"] = R"(["paper", "team=vision", 3])";
  for (const char* tag : {"paper", "team", "team=vision"}) CHECK(has_tag(tagged, tag));
  for (const char* tag : {"pape", "team=", "team=vis", "vision", "paper=1", ""})
    CHECK_FALSE(has_tag(tagged, tag));
  tagged["metadata"]["annotations"]["mlk.dev/tags"] = "[";
  CHECK_FALSE(has_tag(tagged, "paper"));
}

TEST_CASE("the total number of steps is read from an annotation of the owner") {
  json steps = owner("mnist-aaaaa", "mnist", "2026-01-03T00:00:00Z");
  const auto total = [&] { return observe_all(group_by_run({steps}, {}, {}), Time{}).at(0).steps; };
  CHECK(total() == 0);
  steps["metadata"]["annotations"]["mlk.dev/steps"] = "3000";
  CHECK(total() == 3000);
  for (const char* bad : {"", "-1", "3x", "99999999999999999999"}) {
    steps["metadata"]["annotations"]["mlk.dev/steps"] = bad;
    CHECK(total() == 0);
  }
}

TEST_CASE("a gone pod that had been running is remembered as failed") {
  const auto pod = [](const std::string& uid, const std::string& phase) {
    return json{
        {"metadata", {{"name", "p-" + uid}, {"uid", uid}, {"creationTimestamp", "2026-01-03T00:00:00Z"}}},
        {"status", {{"phase", phase}}}};
  };
  PodMemory memory;
  const std::vector<json> first{pod("1", "Running"), pod("2", "Failed"), pod("3", "Pending"),
                                pod("4", "Succeeded")};
  CHECK(memory.with_gone(first) == first);
  std::map<std::string, json> seen;
  for (const json& each : memory.with_gone({pod("5", "Running")})) seen[kube::uid_of(each)] = each;
  REQUIRE(seen.size() == 4);
  CHECK(seen.count("3") == 0);  // the pod never ran: nothing to report
  CHECK(seen["1"]["status"]["phase"] == "Failed");
  CHECK(seen["1"]["metadata"].contains("deletionTimestamp"));
  CHECK(seen["2"]["status"]["phase"] == "Failed");
  CHECK(seen["4"]["status"]["phase"] == "Succeeded");
  CHECK_FALSE(seen["5"]["metadata"].contains("deletionTimestamp"));
}

TEST_CASE("an older state does not overwrite the last state of a gone pod") {
  const auto pod = [](const std::string& phase) {
    return json{{"metadata", {{"uid", "1"}, {"creationTimestamp", "2026-01-03T00:00:00Z"}}},
                {"status", {{"phase", phase}}}};
  };
  PodMemory memory;
  memory.remember(pod("Succeeded"));
  memory.with_gone({pod("Running")});
  CHECK(memory.with_gone({}).at(0)["status"]["phase"] == "Succeeded");
}

TEST_CASE("the number of remembered pods is limited") {
  PodMemory memory;
  std::vector<json> pods;
  for (std::size_t i = 0; i < PodMemory::most_pods + 5; ++i) {
    pods.push_back({{"metadata", {{"uid", std::to_string(i)}}}, {"status", {{"phase", "Running"}}}});
  }
  CHECK(memory.with_gone(pods).size() == pods.size());  // the present pods are always returned
  CHECK(memory.with_gone({}).size() == PodMemory::most_pods);
}

TEST_CASE("a run is incomplete if one of its roles has no Job") {
  Fixture fixture = load("running");
  json& annotations = fixture.objects.owner["metadata"]["annotations"];
  const std::string role = fixture.objects.jobs[0]["metadata"]["labels"]["mlk.dev/role"];
  annotations["mlk.dev/roles"] = json{{role, 2}}.dump();
  CHECK(fixture.observed().phase == Phase::running);
  annotations["mlk.dev/roles"] = json{{role, 2}, {"evaluator", 0}}.dump();  // a role with count 0 has no Job
  CHECK(fixture.observed().phase == Phase::running);
  annotations["mlk.dev/roles"] = json{{role, 2}, {"evaluator", 1}}.dump();
  CHECK(fixture.observed().phase == Phase::incomplete);
  annotations["mlk.dev/roles"] = "no json";
  CHECK(fixture.observed().phase == Phase::running);
}

TEST_CASE("the state of a run ignores pods that ended before the latest start of their Job") {
  Fixture fixture = load("restarting");
  CHECK(fixture.observed().why == "worker/1: restarting after exit code 3: cannot open /data/x (try 2 of 2)");
  REQUIRE(fixture.observed().last_failure);
  for (json& job : fixture.objects.jobs) job["status"]["startTime"] = format_time(fixture.now);
  const RunStatus resumed = fixture.observed();
  CHECK_FALSE(resumed.last_failure);
  CHECK(resumed.why.find("exit code") == std::string::npos);
}

TEST_CASE("a rank of a stopped run is shown as Stopped even if its pod has failed") {
  Fixture fixture = load("stopping");
  json& pod = fixture.objects.pods[0];
  pod["metadata"]["deletionTimestamp"] = format_time(fixture.now);
  pod["status"]["phase"] = "Failed";
  const RunStatus status = fixture.observed();
  CHECK(status.phase == Phase::stopped);
  CHECK(status.ranks.at(0).state == "Stopped");
  CHECK(status.ranks.at(0).reason.empty());
  CHECK_FALSE(status.first_failure);
  const RunStatus later = load("stopped").observed();  // the pods of the run are gone
  CHECK(later.ranks.at(0).state == "Stopped");
  CHECK(later.ranks.at(0).reason.empty());
}

}  // namespace
}  // namespace mlk
