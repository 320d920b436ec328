// Rules about failures and success of a Job, and a pod as the Job controller sees it.
#include "cli/local/jobs/job_policy.h"

#include <doctest/doctest.h>

#include "cli/local/jobs/job_pod.h"
#include "cli/util/indexes.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/jobs/job_policy");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

json policy_with(const json& rules) { return {{"podFailurePolicy", {{"rules", rules}}}}; }

FailureRule matched(const json& rules, const json& failed) {
  return match_failure(policy_with(rules), failed);
}

std::optional<int> success_rule(const json& rules, const std::string& completed) {
  return matched_success_rule({{"successPolicy", {{"rules", rules}}}}, *mlk::Indexes::parse(completed));
}

json with_condition(json of, const std::string& type, const std::string& status) {
  of["status"]["conditions"].push_back({{"type", type}, {"status", status}});
  return of;
}

}  // namespace

TEST_CASE("match_failure() takes the first rule that matches, and its message has the rule's position") {
  const json rules = R"([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
    {"action": "FailJob", "onPodConditions": [{"type": "A"}, {"type": "B", "status": "False"}]},
    {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3, 4]}},
    {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [5]}},
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}}])"_json;
  CHECK(matched(rules, pod(0, "Failed", 7)).action == FailureAction::ignore);
  CHECK(matched(rules, pod(0, "Failed", 4)).action == FailureAction::fail_index);
  CHECK(matched(rules, pod(0, "Failed", 9)).action == FailureAction::count);
  const json five = pod(0, "Failed", 5);
  const std::string name = five["metadata"]["name"];
  CHECK(matched(rules, five).action == FailureAction::fail_job);
  CHECK(matched(rules, five).message == "Container main for pod default/" + name +
                                            " failed with exit code 5 matching FailJob rule at index 4");
  CHECK(matched(rules, with_condition(five, "A", "True")).message ==
        "Pod default/" + name + " has condition A matching FailJob rule at index 1");
  CHECK(matched(rules, with_condition(five, "B", "False")).message ==
        "Pod default/" + name + " has condition B matching FailJob rule at index 1");
  CHECK(matched(rules, with_condition(pod(0, "Failed", 7), "A", "True")).action == FailureAction::ignore);
}

TEST_CASE("match_failure() counts a failure if no rule matches the pod") {
  const json rules = R"([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}}])"_json;
  CHECK(match_failure(json::object(), pod(0, "Failed", 7)).action == FailureAction::count);
  CHECK(matched(rules, pod(0, "Failed", 8)).action == FailureAction::count);
  CHECK(matched(rules, pod(0, "Failed", 8)).message.empty());
  json running = pod(0, "Failed", 7);
  running["status"]["phase"] = "Running";
  CHECK(matched(rules, running).action == FailureAction::count);
  json unknown = pod(0, "Failed", 7);
  unknown["status"].erase("containerStatuses");
  CHECK(matched(rules, unknown).action == FailureAction::count);
  json waiting = pod(0, "Failed", 7);
  waiting["status"]["containerStatuses"][0]["state"] = {{"waiting", json::object()}};
  CHECK(matched(rules, waiting).action == FailureAction::count);
}

TEST_CASE("matched_success_rule() returns the index of the first rule that is met") {
  CHECK_FALSE(matched_success_rule(json::object(), *mlk::Indexes::parse("0-9")));
  const json count = R"([{"succeededCount": 2}])"_json;
  CHECK_FALSE(success_rule(count, "0"));
  CHECK(success_rule(count, "0,5") == 0);
  const json indexes = R"([{"succeededIndexes": "0,2-3"}])"_json;
  CHECK_FALSE(success_rule(indexes, "0,2,4"));
  CHECK(success_rule(indexes, "0,2,3") == 0);
  CHECK(success_rule(indexes, "0-9") == 0);
  const json some_of = R"([{"succeededIndexes": "0,2-3", "succeededCount": 2}])"_json;
  CHECK_FALSE(success_rule(some_of, "0,1,4"));
  CHECK(success_rule(some_of, "1,2,3") == 0);
  const json two = R"([{"succeededIndexes": "9"}, {"succeededCount": 1}])"_json;
  CHECK(success_rule(two, "1") == 1);
  CHECK(success_rule(two, "9") == 0);
  CHECK_FALSE(success_rule(R"([{}])"_json, "0-9"));
  CHECK_FALSE(success_rule(json::array(), "0-9"));
}

TEST_CASE("JobPod::of() reads the index, the failures and the state of a pod") {
  json object = pod(4, "Running", 0, 2);
  object["metadata"]["annotations"]["batch.kubernetes.io/job-index-ignored-failure-count"] = "3";
  JobPod seen = JobPod::of(object, true);
  CHECK(seen.index == 4);
  CHECK(seen.failures == 2);
  CHECK(seen.ignored == 3);
  CHECK(seen.all_failures() == 5);
  CHECK(seen.failures_after() == 3);
  CHECK(seen.ignored_after() == 3);
  seen.rule.action = FailureAction::ignore;
  CHECK(seen.failures_after() == 2);
  CHECK(seen.ignored_after() == 4);
  CHECK(seen.tracked);
  CHECK(seen.active());
  CHECK_FALSE(seen.ready);
  CHECK_FALSE(seen.ended);
  CHECK(JobPod::of(with_condition(object, "Ready", "True"), true).ready);
  CHECK_FALSE(JobPod::of(with_condition(object, "Ready", "False"), true).ready);
  object["metadata"].erase("finalizers");
  object["metadata"].erase("annotations");
  const JobPod bare = JobPod::of(object, true);
  CHECK(bare.index == -1);
  CHECK(bare.failures == 0);
  CHECK_FALSE(bare.tracked);
}

TEST_CASE(
    "a deleted pod counts as failed at once, but only after its end if podReplacementPolicy is Failed") {
  json going = pod(0, "Running");
  going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  CHECK(JobPod::of(going, false).failed);
  CHECK_FALSE(JobPod::of(going, true).failed);
  CHECK(JobPod::of(going, true).terminating());
  CHECK_FALSE(JobPod::of(going, true).active());
  CHECK_FALSE(JobPod::of(going, true).finished);
  json good = pod(0, "Succeeded");
  good["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  CHECK_FALSE(JobPod::of(good, false).failed);
  CHECK(JobPod::of(good, false).succeeded);
  CHECK_FALSE(JobPod::of(good, false).terminating());
  CHECK(JobPod::of(pod(0, "Failed", 1), true).failed);
  CHECK(JobPod::of(pod(0, "Failed", 1), true).finished);
}

TEST_CASE("JobPod::ended is the end of the last container, or else the time of the deletion") {
  json two = pod(0, "Failed", 1);
  json& statuses = two["status"]["containerStatuses"];
  statuses.push_back(statuses[0]);
  statuses[0]["state"]["terminated"]["finishedAt"] = "2026-11-21T12:00:09Z";
  CHECK(JobPod::of(two, true).ended == noon + std::chrono::seconds(9));
  json going = pod(0, "Running");
  going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:30Z";
  CHECK(JobPod::of(going, true).ended == noon + std::chrono::seconds(30));
  going["metadata"]["deletionGracePeriodSeconds"] = 30;
  CHECK(JobPod::of(going, true).ended == noon);
}
