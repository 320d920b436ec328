// The Job controller's decisions, as tables of pods and the resulting actions.
#include "cli/local/jobs/reconcile.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/jobs/reconcile");

using namespace mlk::local;
using namespace mlk::local::samples;
using std::chrono::seconds;

namespace {

JobActions decide(const json& job, const std::vector<json>& pods, mlk::Time now = noon) {
  std::vector<const json*> pointers;
  for (const json& pod : pods) pointers.push_back(&pod);
  return reconcile(job, pointers, now);
}

std::vector<int> created(const JobActions& actions) {
  std::vector<int> indexes;
  for (const NewPod& pod : actions.create) indexes.push_back(pod.index);
  return indexes;
}

// "type=reason" of each condition that is true.
std::vector<std::string> conditions(const JobActions& actions) {
  std::vector<std::string> result;
  for (const json& condition : actions.status.value("conditions", json::array())) {
    if (condition.at("status") == "True")
      result.push_back(condition.at("type").get<std::string>() + "=" +
                       condition.at("reason").get<std::string>());
  }
  return result;
}

// Simulates further steps of the caller: the status is stored, and released pods lose their finalizer.
JobActions reconciled(json job, std::vector<json> pods, mlk::Time now = noon) {
  JobActions actions;
  for (int i = 0; i < 5; ++i) {
    actions = decide(job, pods, now);
    job["status"] = actions.status;
    for (json& pod : pods) {
      const std::string name = pod["metadata"]["name"];
      if (std::count(actions.release.begin(), actions.release.end(), name) != 0)
        pod["metadata"].erase("finalizers");
    }
    if (is_finished(job)) break;
  }
  return actions;
}

json disrupted(json pod) {
  pod["status"]["conditions"] = json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}});
  return pod;
}

json deleted(json pod) {
  pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  return pod;
}

const json policy = {
    {"rules",
     {{{"action", "Ignore"}, {"onPodConditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}},
      {{"action", "FailJob"}, {"onExitCodes", {{"operator", "In"}, {"values", {64, 65}}}}},
      {{"action", "FailIndex"}, {"onExitCodes", {{"operator", "In"}, {"values", {3}}}}}}}};

}  // namespace

TEST_CASE("a new Job gets a pod for each index, up to its parallelism") {
  CHECK(created(decide(job(3), {})) == std::vector<int>{0, 1, 2});
  CHECK(created(decide(job(5, {{"parallelism", 2}}), {})) == std::vector<int>{0, 1});
  CHECK(created(decide(job(5, {{"parallelism", 2}}), {pod(0, "Running")})) == std::vector<int>{1});
  CHECK(created(decide(job(2), {pod(0, "Running"), pod(1, "Pending")})).empty());
}

TEST_CASE("the first step of a Job sets the start time of the Job") {
  json fresh = job(1);
  fresh.erase("status");
  CHECK(decide(fresh, {}).status.at("startTime") == "2026-11-21T12:00:00Z");
}

TEST_CASE("a completed index is not started again, even if its pod is gone") {
  json half = job(2);
  half["status"]["completedIndexes"] = "0";
  CHECK(created(decide(half, {})) == std::vector<int>{1});
}

TEST_CASE("a failed index is restarted 10 s after its first failure, and 20 s after its second failure") {
  const struct {
    int failures;
    int delay;
  } table[] = {{0, 10}, {1, 20}};
  for (const auto& row : table) {
    const json failed = pod(0, "Failed", 1, row.failures);
    const JobActions early = decide(job(1), {failed}, noon + seconds(row.delay - 1));
    CHECK(created(early).empty());
    CHECK(early.again == noon + seconds(row.delay));
    const JobActions due = decide(job(1), {failed}, noon + seconds(row.delay));
    REQUIRE(due.create.size() == 1);
    CHECK(due.create[0].failures == row.failures + 1);
  }
}

TEST_CASE("a failed pod is kept until its replacement has stored the number of failures") {
  const json failed = pod(0, "Failed", 1);
  CHECK(decide(job(1), {failed}).release.empty());
  const json next = pod(0, "Running", 0, 1);
  CHECK(decide(job(1), {failed, next}).release == std::vector<std::string>{failed["metadata"]["name"]});
}

TEST_CASE(
    "if an index has more failures than backoffLimitPerIndex, it fails, and the other indexes continue") {
  const JobActions actions = reconciled(job(2), {pod(0, "Failed", 1, 2), pod(1, "Running")});
  CHECK(actions.status.at("failedIndexes") == "0");
  CHECK(created(actions).empty());
  CHECK(conditions(actions).empty());
}

TEST_CASE("a Job ends when each of its indexes has succeeded or failed") {
  CHECK(conditions(reconciled(job(2), {pod(0, "Failed", 1, 2), pod(1, "Succeeded")})) ==
        std::vector<std::string>{"FailureTarget=FailedIndexes", "Failed=FailedIndexes"});
  const JobActions good = reconciled(job(2), {pod(0, "Succeeded"), pod(1, "Succeeded")});
  CHECK(conditions(good) ==
        std::vector<std::string>{"SuccessCriteriaMet=CompletionsReached", "Complete=CompletionsReached"});
  CHECK(good.status.at("succeeded") == 2);
  CHECK(good.status.at("completedIndexes") == "0,1");
  CHECK(good.status.at("completionTime") == "2026-11-21T12:00:00Z");
}

TEST_CASE("if more indexes have failed than maxFailedIndexes allows, the Job ends and stops its pods") {
  const json lasting = pod(1, "Running");
  const JobActions actions = reconciled(job(2, {{"maxFailedIndexes", 0}}), {pod(0, "Failed", 1, 2), lasting});
  CHECK(conditions(actions) == std::vector<std::string>{"FailureTarget=MaxFailedIndexesExceeded"});
  CHECK(actions.remove == std::vector<std::string>{lasting["metadata"]["name"]});
}

TEST_CASE("a Job that has decided to fail does not end before its last pod") {
  json ending = job(2, {{"maxFailedIndexes", 0}});
  const JobActions waiting = reconciled(ending, {pod(0, "Failed", 1, 2), deleted(pod(1, "Running"))});
  CHECK(conditions(waiting).size() == 1);
  CHECK(waiting.status.at("terminating") == 1);
  const JobActions over = reconciled(ending, {pod(0, "Failed", 1, 2), deleted(pod(1, "Failed", 143))});
  CHECK(conditions(over).size() == 2);
}

TEST_CASE("a Job fails if a rank ends with an exit code that a FailJob rule lists") {
  const JobActions actions =
      reconciled(job(2, {{"podFailurePolicy", policy}}), {pod(0, "Failed", 64), pod(1, "Failed", 143)});
  CHECK(conditions(actions) ==
        std::vector<std::string>{"FailureTarget=PodFailurePolicy", "Failed=PodFailurePolicy"});
  const std::string message = actions.status.at("conditions").at(0).at("message");
  CHECK(message.find("Container main for pod default/j-0-") == 0);
  CHECK(message.find("failed with exit code 64 matching FailJob rule at index 1") != std::string::npos);
}

TEST_CASE("if a disruption ends a pod, the index is restarted and its number of failures does not change") {
  const JobActions actions =
      decide(job(1, {{"podFailurePolicy", policy}}), {disrupted(pod(0, "Failed", 64))}, noon + seconds(10));
  REQUIRE(actions.create.size() == 1);
  CHECK(actions.create[0].failures == 0);
  CHECK(actions.create[0].ignored == 1);
  CHECK(actions.status.value("failed", 0) == 0);
}

TEST_CASE("a rule with NotIn ignores a container that ended with 0") {
  const json rules = {
      {"podFailurePolicy",
       {{"rules", {{{"action", "FailJob"}, {"onExitCodes", {{"operator", "NotIn"}, {"values", {1, 2}}}}}}}}}};
  json both = pod(0, "Failed", 1);
  json& statuses = both["status"]["containerStatuses"];
  statuses.insert(statuses.begin(), statuses[0]);
  statuses[0]["name"] = "helper";
  statuses[0]["state"]["terminated"]["exitCode"] = 0;
  CHECK(conditions(reconciled(job(1, rules), {both})).empty());
  statuses[1]["state"]["terminated"]["exitCode"] = 3;
  CHECK(!conditions(reconciled(job(1, rules), {both})).empty());
}

TEST_CASE("the back-off after a deleted pod counts from the time of the deletion") {
  json ending = deleted(pod(0, "Running"));
  ending["metadata"]["deletionTimestamp"] = "2026-11-21T12:05:00Z";
  ending["metadata"]["deletionGracePeriodSeconds"] = 300;
  const json at_once = {{"podReplacementPolicy", "TerminatingOrFailed"}, {"backoffLimitPerIndex", nullptr}};
  CHECK(created(decide(job(1, at_once), {ending}, noon + seconds(9))).empty());
  CHECK(created(decide(job(1, at_once), {ending}, noon + seconds(10))) == std::vector<int>{0});
}

TEST_CASE("an index fails at its first failure if the rule that matches has the action FailIndex") {
  CHECK(reconciled(job(2, {{"podFailurePolicy", policy}}), {pod(0, "Failed", 3), pod(1, "Running")})
            .status.at("failedIndexes") == "0");
}

TEST_CASE("a success policy ends the Job early and stops the remaining pods") {
  const json left = pod(2, "Running");
  const json by_count = {{"successPolicy", {{"rules", {{{"succeededCount", 2}}}}}}};
  const std::vector<json> pods = {pod(0, "Succeeded"), pod(1, "Succeeded"), left};
  CHECK_MESSAGE(conditions(reconciled(job(3, by_count), pods)).empty(),
                "ranks that end within moments are all counted");
  const JobActions actions = reconciled(job(3, by_count), pods, noon + seconds(3));
  CHECK(conditions(actions) == std::vector<std::string>{"SuccessCriteriaMet=SuccessPolicy"});
  CHECK(actions.remove == std::vector<std::string>{left["metadata"]["name"]});
  const json by_index = {{"successPolicy", {{"rules", {{{"succeededIndexes", "0"}}}}}}};
  CHECK(conditions(reconciled(job(2, by_index), {pod(1, "Succeeded"), pod(0, "Running")})).empty());
  CHECK(conditions(reconciled(job(2, by_index), {pod(0, "Succeeded")}, noon + seconds(3))).size() == 2);
}

TEST_CASE(
    "a suspended Job stops its pods and loses its start time, and a resumed Job starts its pods again") {
  const json running = pod(0, "Running");
  json suspended = job(1, {{"suspend", true}});
  const JobActions actions = decide(suspended, {running});
  CHECK(actions.remove == std::vector<std::string>{running["metadata"]["name"]});
  CHECK(conditions(actions) == std::vector<std::string>{"Suspended=JobSuspended"});
  CHECK(!actions.status.contains("startTime"));
  json resumed = job(1);
  resumed["status"] = actions.status;
  const JobActions again = decide(resumed, {});
  CHECK(created(again) == std::vector<int>{0});
  CHECK(conditions(again).empty());
  CHECK(again.status.contains("startTime"));
}

TEST_CASE("a deleted pod that has failed is released if its Job is suspended") {
  const json by_index{{"backoffLimitPerIndex", 3}};
  const json ended = deleted(pod(0, "Failed"));
  CHECK(decide(job(1, by_index), {ended}).release.empty());  // the pod stores the number of failures
  json suspended = job(1, {{"backoffLimitPerIndex", 3}, {"suspend", true}});
  CHECK(decide(suspended, {ended}).release == std::vector<std::string>{ended["metadata"]["name"]});
}

TEST_CASE("a pod that a suspended Job has stopped does not count as a failure") {
  const json last_try = pod(0, "Running", 0, 3);
  json suspended = job(1, {{"backoffLimitPerIndex", 3}, {"maxFailedIndexes", 0}, {"suspend", true}});
  const std::string name = last_try["metadata"]["name"];
  const JobActions actions = decide(suspended, {last_try});
  CHECK(actions.release == std::vector<std::string>{name});
  CHECK(actions.remove == std::vector<std::string>{name});
  suspended["spec"]["podFailurePolicy"] = policy;
  suspended["status"] = actions.status;
  json ended = deleted(pod(0, "Failed", 64, 3));
  ended["metadata"].erase("finalizers");
  const JobActions after = decide(suspended, {ended});
  CHECK(conditions(after) == std::vector<std::string>{"Suspended=JobSuspended"});
  CHECK(after.status.value("failedIndexes", "") == "");
}

TEST_CASE("if an index has failed, the Job fails when all indexes have ended, even with a success policy") {
  const json by_count = {{"successPolicy", {{"rules", {{{"succeededCount", 2}}}}}},
                         {"backoffLimitPerIndex", 0}};
  const std::vector<json> pods = {pod(0, "Succeeded"), pod(1, "Succeeded"), pod(2, "Failed", 1)};
  CHECK(conditions(reconciled(job(3, by_count), pods)) ==
        std::vector<std::string>{"FailureTarget=FailedIndexes", "Failed=FailedIndexes"});
}

TEST_CASE("a terminating pod blocks its index if podReplacementPolicy is Failed") {
  const json ending = deleted(pod(0, "Running"));
  CHECK(created(decide(job(1), {ending})).empty());
  const json at_once = {{"podReplacementPolicy", "TerminatingOrFailed"}, {"backoffLimitPerIndex", nullptr}};
  CHECK(created(decide(job(1, at_once), {ending}, noon + seconds(10))) == std::vector<int>{0});
}

TEST_CASE("a Job with a deadline requests a sync at the deadline, and ends in this sync") {
  const json limited = job(1, {{"activeDeadlineSeconds", 7200}});  // the Job has started at 11:00
  CHECK(decide(limited, {pod(0, "Running")}).again == noon + seconds(3600));
  CHECK(conditions(decide(limited, {pod(0, "Running")}, noon + seconds(3600))) ==
        std::vector<std::string>{"FailureTarget=DeadlineExceeded"});
}

TEST_CASE("a Job without backoffLimitPerIndex counts the failures of all its indexes together") {
  const json common = {{"backoffLimitPerIndex", nullptr}, {"backoffLimit", 1}};
  CHECK(conditions(reconciled(job(2, common), {pod(0, "Failed", 1), pod(1, "Running")})).empty());
  CHECK(conditions(reconciled(job(2, common), {pod(0, "Failed", 1), pod(1, "Failed", 1)})) ==
        std::vector<std::string>{"FailureTarget=BackoffLimitExceeded", "Failed=BackoffLimitExceeded"});
}

TEST_CASE("a smaller parallelism stops the pods with the highest indexes") {
  const json low = pod(0, "Running"), high = pod(1, "Running");
  CHECK(decide(job(2, {{"parallelism", 1}}), {low, high}).remove ==
        std::vector<std::string>{high["metadata"]["name"]});
}

TEST_CASE("a Job counts each failure once, even if the server is killed between two actions") {
  const json common = {{"backoffLimitPerIndex", nullptr}, {"backoffLimit", 5}};
  json stored = job(1, common);
  json failed = pod(0, "Failed", 1);
  const JobActions first = decide(stored, {failed});
  CHECK(first.release.size() == 1);
  CHECK(first.status.value("failed", 0) == 0);
  stored["status"] = first.status;  // then the server was killed before it released the pod
  const JobActions second = decide(stored, {failed});
  CHECK(second.status == first.status);
  CHECK(second.release == first.release);
  failed["metadata"].erase("finalizers");  // the pod was released, and the server was killed again
  const JobActions third = decide(stored, {failed});
  CHECK(third.status.at("failed") == 1);
  stored["status"] = third.status;
  CHECK(decide(stored, {failed}).status.at("failed") == 1);
}

TEST_CASE("a pod of a Job has the labels and variables that programs and other controllers read") {
  const json made = pod_of(job(3), {2, 1, 0}, "abcde");
  const json& metadata = made.at("metadata");
  CHECK(metadata.at("name") == "j-2-abcde");
  CHECK(metadata.at("labels").at("batch.kubernetes.io/job-completion-index") == "2");
  CHECK(metadata.at("annotations").at("batch.kubernetes.io/job-completion-index") == "2");
  CHECK(metadata.at("annotations").at("batch.kubernetes.io/job-index-failure-count") == "1");
  CHECK(metadata.at("ownerReferences").at(0).at("uid") == "job-uid");
  CHECK(made.at("spec").at("hostname") == "j-2");
  CHECK(made.at("spec").at("containers").at(0).at("env").at(0).at("name") == "JOB_COMPLETION_INDEX");
}
