// The controllers' effects on objects: rules about failures, events, garbage, statuses. No process is
// started.
#include <doctest/doctest.h>

#include "cli/local/garbage.h"
#include "cli/local/jobs/job_policy.h"
#include "cli/local/jobs/jobs.h"
#include "cli/local/node/pod_status.h"
#include "cli/local/state/events.h"
#include "cli/util/json_path.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/controllers");

using namespace mlk::local;
using namespace mlk::local::samples;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

json failed_with(int code, const std::string& disrupted = "") {
  json failed = pod(0, "Failed", code);
  if (!disrupted.empty())
    failed["status"]["conditions"] = {{{"type", "DisruptionTarget"}, {"status", disrupted}}};
  return failed;
}

std::string time_of(const json& status, const std::string& type) {
  for (const json& condition : status.at("conditions")) {
    if (condition.at("type") == type) return condition.at("lastTransitionTime");
  }
  return "";
}

}  // namespace

TEST_CASE("a rule with onPodConditions matches a pod whose condition has the type and status in the rule") {
  const auto action = [](const json& pattern, const std::string& status) {
    const json spec = {
        {"podFailurePolicy", {{"rules", {{{"action", "Ignore"}, {"onPodConditions", {pattern}}}}}}}};
    return match_failure(spec, failed_with(1, status)).action;
  };
  const json disrupted = {{"type", "DisruptionTarget"}};  // a missing status means True
  CHECK(action(disrupted, "True") == FailureAction::ignore);
  CHECK(action(disrupted, "False") == FailureAction::count);
  CHECK(action({{"type", "DisruptionTarget"}, {"status", "False"}}, "False") == FailureAction::ignore);
  CHECK(action({{"type", "Ready"}}, "True") == FailureAction::count);
}

TEST_CASE("a rule with onExitCodes applies to each failed container, or only to the one that it names") {
  const auto action = [](const json& rule, const json& failed) {
    const json spec = {{"podFailurePolicy", {{"rules", {{{"action", "FailJob"}, {"onExitCodes", rule}}}}}}};
    return match_failure(spec, failed).action;
  };
  const json not_3 = {{"operator", "NotIn"}, {"values", {3}}};
  CHECK(action(not_3, failed_with(4)) == FailureAction::fail_job);
  CHECK(action(not_3, failed_with(3)) == FailureAction::count);
  json two = failed_with(3);  // the pod also has a second container, which ended with 0
  two["status"]["containerStatuses"].push_back(
      {{"name", "side"}, {"state", {{"terminated", {{"exitCode", 0}}}}}});
  CHECK(action(not_3, two) == FailureAction::count);
  json of_side = {{"operator", "In"}, {"values", {3}}, {"containerName", "side"}};
  CHECK(action(of_side, two) == FailureAction::count);
  of_side["containerName"] = "main";
  CHECK(action(of_side, two) == FailureAction::fail_job);
}

TEST_CASE("an orphan pod is deleted at once if it has ended, and otherwise gets its grace period") {
  for (const char* phase : {"Pending", "Running", "Succeeded", "Failed"}) {
    CAPTURE(phase);
    const Folder folder;
    Store store(folder.path());
    json orphan = pod(0, phase);
    orphan["metadata"].erase("finalizers");
    orphan["metadata"]["ownerReferences"] = {{{"uid", "gone"}}};
    orphan["spec"] = {{"nodeName", "local"}, {"terminationGracePeriodSeconds", 7}};
    store.create("pods", orphan);
    collect_garbage(store, noon);
    const std::string name = orphan["metadata"]["name"];
    const bool ended = phase == std::string("Succeeded") || phase == std::string("Failed");
    CHECK((store.find("pods", "default", name) == nullptr) == ended);
    if (ended) continue;
    const json metadata = store.get("pods", "default", name)->at("metadata");
    CHECK(metadata.at("deletionGracePeriodSeconds") == 7);
    CHECK(metadata.at("deletionTimestamp") == "2026-11-21T12:00:07Z");
  }
}

TEST_CASE("a condition gets the present time if it has changed, and otherwise keeps its time") {
  json changing = {{"metadata", {{"name", "p"}, {"uid", "u"}}},
                   {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}}}}}}};
  PodState state;
  changing["status"] = pod_status(changing, state, noon);
  state.running_since = "2026-11-21T12:30:00Z";
  const json running = pod_status(changing, state, noon + minutes(30));
  CHECK(time_of(running, "Ready") == "2026-11-21T12:30:00Z");
  CHECK(time_of(running, "PodScheduled") == "2026-11-21T12:00:00Z");
  CHECK(running.at("startTime") == "2026-11-21T12:00:00Z");
}

TEST_CASE("equal events are stored as one event, which expires an hour after the last of them") {
  const Folder folder;
  Store store(folder.path());
  const json about = {{"kind", "Pod"}, {"metadata", {{"name", "p"}, {"namespace", "ns"}, {"uid", "u"}}}};
  const auto say = [&](const std::string& message, mlk::Time when) {
    record_event(store, about, "kubelet", "Warning", "Failed", message, when);
  };
  say("again", noon);
  say("again", noon + minutes(30));
  say("once", noon);
  REQUIRE(store.list("events").size() == 2);
  expire_events(store, noon + minutes(59));
  CHECK(store.list("events").size() == 2);
  expire_events(store, noon + minutes(61));
  const auto left = store.list("events");
  REQUIRE(left.size() == 1);
  CHECK(left[0]->at("message") == "again");
  CHECK(left[0]->at("count") == 2);
  CHECK(left[0]->at("firstTimestamp") == "2026-11-21T12:00:00Z");
  CHECK(left[0]->at("lastTimestamp") == "2026-11-21T12:30:00Z");
}

TEST_CASE("a failing Job does not wait for pods that have no node") {
  const Folder folder;
  Store store(folder.path());
  json failing = job(2, {{"maxFailedIndexes", 0}, {"backoffLimitPerIndex", 0}});
  store.create("jobs", failing);
  const json owner = {{{"kind", "Job"}, {"uid", "job-uid"}, {"controller", true}}};
  json failed = pod(0, "Failed", 1), unbound = pod(1, "Pending");
  for (json* each : {&failed, &unbound}) {
    (*each)["metadata"]["ownerReferences"] = owner;
    (*each)["spec"] = json::object();
    store.create("pods", *each);
  }
  failed["spec"]["nodeName"] = "local";
  for (int i = 0; i < 4; ++i) step_jobs(store, noon);
  const json conditions = store.get("jobs", "default", "j")->at("status").at("conditions");
  REQUIRE(conditions.size() == 2);
  CHECK(conditions[1].at("type") == "Failed");
}
