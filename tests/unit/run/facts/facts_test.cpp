// Tests how one value in an object of the cluster affects the state of a run.
#include <algorithm>

#include <doctest/doctest.h>

#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/run/read/watcher.h"
#include "cli/run/state/record.h"
#include "tests/unit/run/fixture.h"

TEST_SUITE_BEGIN("run/facts/facts");

namespace mlk {
namespace {

using json = nlohmann::json;
using test::Fixture;
using test::load;

json& terminated(json& pod) { return pod["status"]["containerStatuses"][0]["state"]["terminated"]; }

TEST_CASE("a container that never started has no end time even if the kubelet writes 1970") {
  Fixture fixture = load("failed_program_not_found");
  terminated(fixture.objects.pods[0])["startedAt"] = "1970-01-01T00:00:00Z";
  terminated(fixture.objects.pods[0])["finishedAt"] = "1970-01-01T00:00:00Z";
  const RunStatus status = fixture.observed();
  REQUIRE(status.last_failure);
  CHECK(status.last_failure->at == parse_time("2026-11-21T08:02:49Z"));  // when the pod was last not ready
  CHECK(status.started != Time{});
}

TEST_CASE("a run shows its newest warning even if the events use different time fields") {
  const auto warning = [](const char* message, const json& times) {
    json event = {{"type", "Warning"},
                  {"reason", "FailedMount"},
                  {"message", message},
                  {"involvedObject", {{"uid", "e206152d-25a6-40fb-906e-5285b587b253"}}},
                  {"metadata", {{"creationTimestamp", "2026-11-21T08:00:00Z"}}}};
    event.update(times);
    return event;
  };
  const json times[] = {
      {{"series", {{"lastObservedTime", "2026-11-21T09:00:00Z"}}}, {"lastTimestamp", "2026-11-21T08:00:01Z"}},
      {{"lastTimestamp", "2026-11-21T09:00:00Z"}},
      {{"lastTimestamp", nullptr}, {"eventTime", "2026-11-21T09:00:00.5Z"}},
      {{"metadata", {{"creationTimestamp", "2026-11-21T09:00:00Z"}}}}};
  for (const json& newest : times) {
    CAPTURE(newest.dump());
    Fixture fixture = load("missing_config_map_volume");
    fixture.objects.events.insert(fixture.objects.events.begin(), warning("the newest", newest));
    CHECK(fixture.observed().why == "worker/0: the newest");
  }
}

TEST_CASE("a run shows the commit of its code, with -dirty if the folder had changes") {
  struct Case {
    std::string source, commit;
  };
  for (const Case& each :
       {Case{R"({"path":".","commit":"0123456789abcdef","branch":"main","clean":true})", "0123456789abcdef"},
        Case{R"({"path":".","commit":"0123456789abcdef","clean":false})", "0123456789abcdef-dirty"},
        Case{R"({"commit":"0123456789abcdef"})", "0123456789abcdef-dirty"},
        Case{R"({"commit":"","clean":false})", ""}, Case{R"({"path":"."})", ""}, Case{"[]", ""},
        Case{"{", ""}, Case{"", ""}}) {
    INFO(each.source);
    CHECK(commit_of(each.source) == each.commit);
    RunObjects objects;
    objects.owner = {{"metadata", {{"name", "r"}}}, {"data", {{"code", each.source}}}};
    CHECK(observe(objects, Time()).commit == each.commit);
    RunStatus ended;
    ended.phase = Phase::succeeded;
    objects.owner.merge_patch(record_patch(ended));
    CHECK(observe(objects, Time()).phase == Phase::succeeded);
    CHECK(observe(objects, Time()).commit == each.commit);
  }
}

TEST_CASE("disruptions before a failure count as restarts of the rank, but not as tries") {
  Fixture fixture = load("failed_exit_code");
  for (json& job : fixture.objects.jobs) {
    job["status"].erase("conditions");
    job["status"].erase("failedIndexes");
    job["spec"]["backoffLimitPerIndex"] = 3;
  }
  for (json& pod : fixture.objects.pods) {
    json& annotations = pod["metadata"]["annotations"];
    annotations["batch.kubernetes.io/job-index-failure-count"] = "1";
    annotations["batch.kubernetes.io/job-index-ignored-failure-count"] = "2";
  }
  const RunStatus status = fixture.observed();
  REQUIRE(status.last_failure);
  CHECK(status.last_failure->attempt == 2);
  CHECK(status.last_failure->attempts == 4);
  CHECK(std::ranges::any_of(status.ranks, [](const RankStatus& rank) { return rank.restarts == 3; }));
}

TEST_CASE("running out of memory counts as a failure and not as a disruption, even if the pod was deleted") {
  Fixture fixture = load("deleted_pod");
  REQUIRE(fixture.observed().last_failure);
  CHECK(fixture.observed().last_failure->disruption);
  terminated(fixture.objects.pods[1])["reason"] = "OOMKilled";
  CHECK_FALSE(fixture.observed().last_failure->disruption);
  CHECK(fixture.observed().last_failure->reason == "out of memory");
  fixture.objects.pods[1]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "32Mi";
  CHECK(fixture.observed().last_failure->reason == "out of memory: its limit is 32Mi, raise workers.memory");
}

TEST_CASE("a run does not wait for the pods of other Jobs if its end is decided") {
  Fixture fixture = load("succeeded");
  for (json& job : fixture.objects.jobs) {
    if (job["metadata"]["name"] != "ok-aaaaa-worker") continue;
    job["status"]["conditions"] = {{{"type", "SuccessCriteriaMet"}, {"status", "True"}}};
  }
  REQUIRE(std::ranges::any_of(fixture.objects.pods,
                              [](const json& pod) { return pod["status"]["phase"] == "Running"; }));
  CHECK(fixture.observed().phase == Phase::succeeded);
}

TEST_CASE("a pod that was created in the same second in which its Job started belongs to this start") {
  Fixture fixture = load("restarting");
  REQUIRE(fixture.observed().last_failure);
  for (json& job : fixture.objects.jobs) {
    job["status"]["startTime"] = fixture.objects.pods[0]["metadata"]["creationTimestamp"];
  }
  for (json& pod : fixture.objects.pods) {
    pod["metadata"]["creationTimestamp"] = fixture.objects.pods[0]["metadata"]["creationTimestamp"];
  }
  CHECK(fixture.observed().last_failure);
}

TEST_CASE("a remembered pod stays ended even if an older list shows it running") {
  const auto pod = [](const std::string& phase) {
    return json{{"metadata", {{"uid", "1"}, {"creationTimestamp", "2026-01-03T00:00:00Z"}}},
                {"status", {{"phase", phase}, {"reason", phase}}}};
  };
  PodMemory memory;
  memory.remember(pod("Succeeded"));
  memory.with_gone({pod("Running")});
  memory.with_gone({pod("Running")});
  CHECK(memory.with_gone({}).at(0)["status"]["reason"] == "Succeeded");
  memory.with_gone({pod("Failed")});
  CHECK(memory.with_gone({}).at(0)["status"]["reason"] == "Failed");
}

TEST_CASE("a run needs each of its ranks even if the `parallelism` of a Job delays the start of some ranks") {
  Fixture fixture = load("running");
  for (json& job : fixture.objects.jobs) {
    if (job["metadata"]["labels"]["mlk.dev/role"] == "worker") job["spec"]["parallelism"] = 1;
  }
  CHECK(fixture.observed().phase == Phase::running);
  std::erase_if(fixture.objects.pods,
                [](const json& pod) { return pod["metadata"]["name"] == "ok-aaaaa-worker-1-sxh5t"; });
  CHECK(fixture.observed().phase == Phase::scheduling);
}

TEST_CASE("if an init container does not start, the reason names this container") {
  Fixture fixture = load("image_cannot_be_pulled");
  json& status = fixture.objects.pods[0]["status"];
  json init = status["containerStatuses"][0];
  init["name"] = "fetch";
  init["state"] = {{"waiting", {{"reason", "CreateContainerError"}, {"message", "no such mount"}}}};
  status["containerStatuses"][0]["state"] = {{"waiting", {{"reason", "PodInitializing"}}}};
  status["initContainerStatuses"] = json::array({init});
  fixture.objects.pods[0]["spec"]["initContainers"] = {{{"name", "fetch"}, {"image", "git:1"}}};
  CHECK(fixture.observed().why ==
        "worker/0: init container fetch: the container cannot be made: no such mount");
  status["initContainerStatuses"][0]["state"] = {{"terminated", {{"exitCode", 0}}}};
  CHECK(fixture.observed().why.empty());
}

TEST_CASE("a ConfigMap of a run is not listed as a run if it is not the owner") {
  const Fixture fixture = load("running");
  json files = fixture.objects.owner;
  files["metadata"]["name"] = "ok-aaaaa-config";
  const auto runs = observe_all(
      group_by_run({fixture.objects.owner, files}, fixture.objects.jobs, fixture.objects.pods), fixture.now);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].run == "ok-aaaaa");
}

TEST_CASE("the start of a run is the start of its first pod even if this pod is gone") {
  Fixture fixture = load("stopped");
  RunStatus earlier = fixture.observed();
  earlier.started = parse_time("2026-11-21T07:00:00Z");
  fixture.objects.owner.merge_patch(record_patch(earlier));
  CHECK(fixture.observed().started == earlier.started);
}

TEST_CASE("a record holds at most as many ranks as fit into an object of the cluster") {
  RunStatus status = load("succeeded").observed();
  const RankStatus one = status.ranks.front();
  for (const std::size_t count : {std::size_t{256}, std::size_t{257}, std::size_t{100'000}}) {
    status.ranks.assign(count, one);
    CHECK(to_record(status)["ranks"].size() == 256);
    CHECK(to_json(status)["ranks"].size() == count);
  }
}

}  // namespace
}  // namespace mlk
