// The Job controller's numbers, events and delays, and its actions when the size of a Job changes.
#include <algorithm>

#include <doctest/doctest.h>

#include "cli/local/jobs/reconcile.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/jobs/reconcile_steps");

using namespace mlk::local;
using namespace mlk::local::samples;
using std::chrono::seconds;

namespace {

JobActions stepped(const json& job, const std::vector<json>& pods, mlk::Time now = noon) {
  std::vector<const json*> pointers;
  for (const json& pod : pods) pointers.push_back(&pod);
  return reconcile(job, pointers, now);
}

std::string name_of_sample(const json& object) { return object.at("metadata").at("name"); }

std::vector<std::string> names_of_samples(const std::vector<json>& objects) {
  std::vector<std::string> result;
  for (const json& object : objects) result.push_back(name_of_sample(object));
  return result;
}

std::vector<std::string> said_events(const JobActions& actions) {
  std::vector<std::string> result;
  for (const JobEvent& event : actions.events)
    result.push_back(event.type + " " + event.reason + ": " + event.message);
  return result;
}

json going(json object) {
  object["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  return object;
}

json counted(json object) {
  object["metadata"].erase("finalizers");
  return object;
}

json ready(json object) {
  object["status"]["conditions"] = json::array({{{"type", "Ready"}, {"status", "True"}}});
  return object;
}

std::vector<int> indexes_created(const JobActions& actions) {
  std::vector<int> result;
  for (const NewPod& pod : actions.create) result.push_back(pod.index);
  return result;
}

const json without_limit_by_index = {{"backoffLimitPerIndex", nullptr}};

}  // namespace

TEST_CASE("after a step, the status of a Job counts the present pods and the pods that the step creates") {
  const json status = stepped(job(5), {ready(pod(0, "Running")), pod(1, "Running"),
                                       going(ready(pod(2, "Running"))), pod(3, "Succeeded")})
                          .status;
  CHECK(status.at("active") == 3);  // two pods, and one that is created for index 4
  CHECK(status.at("ready") == 1);
  CHECK(status.at("terminating") == 1);
  CHECK(status.at("succeeded") == 1);
  CHECK(status.at("completedIndexes") == "3");
  CHECK(status.at("failedIndexes") == "");
  const json empty = stepped(job(0), {}).status;
  for (const char* field : {"active", "succeeded", "completedIndexes"}) CHECK_FALSE(empty.contains(field));
  CHECK(empty.at("ready") == 0);
  CHECK(empty.at("terminating") == 0);
  CHECK_FALSE(stepped(job(1, without_limit_by_index), {}).status.contains("failedIndexes"));
}

TEST_CASE("a pod that a step removes counts as terminating, and not as active, in the status of its Job") {
  const json status =
      stepped(job(2, {{"parallelism", 1}}), {ready(pod(0, "Running")), ready(pod(1, "Running"))}).status;
  CHECK(status.at("active") == 1);
  CHECK(status.at("ready") == 1);
  CHECK(status.at("terminating") == 1);
}

TEST_CASE("an ended pod is listed as uncounted first, then released, and counted last") {
  const json good = pod(0, "Succeeded"), bad = pod(1, "Failed", 1);
  const json common = job(3, {{"backoffLimitPerIndex", nullptr}, {"backoffLimit", 5}});
  const JobActions first = stepped(common, {good, bad});
  const json listed = {{"succeeded", {good["metadata"]["uid"]}}, {"failed", {bad["metadata"]["uid"]}}};
  CHECK(first.status.at("uncountedTerminatedPods") == listed);
  CHECK(first.release == names_of_samples({good, bad}));
  CHECK_FALSE(first.status.contains("failed"));
  json next = common;
  next["status"] = first.status;
  const JobActions half = stepped(next, {counted(good), bad});
  CHECK(half.status.at("uncountedTerminatedPods") == json{{"failed", {bad["metadata"]["uid"]}}});
  CHECK(half.release == names_of_samples({bad}));
  const JobActions all = stepped(next, {counted(good), counted(bad)});
  CHECK(all.status.at("uncountedTerminatedPods") == json::object());
  CHECK(all.release.empty());
  CHECK(all.status.at("failed") == 1);
  CHECK(all.status.at("succeeded") == 1);
  const JobActions gone = stepped(next, {});  // no pod exists any more
  CHECK(gone.status.at("failed") == 1);
}

TEST_CASE("a Job does not count a pod whose index is beyond the size of the Job") {
  json one = job(1);
  const JobActions actions = stepped(one, {pod(1, "Failed", 1), pod(2, "Succeeded"), going(pod(3, "Running")),
                                           pod(4, "Running"), pod(0, "Running")});
  CHECK_FALSE(actions.status.contains("failed"));
  CHECK_FALSE(actions.status.contains("succeeded"));
  CHECK(actions.status.at("uncountedTerminatedPods") == json::object());
  CHECK(actions.release.size() == 3);
  CHECK(actions.remove.size() == 1);  // the pod of index 4
  one["status"]["completedIndexes"] = "0,3";
  one["status"]["failedIndexes"] = "2";
  const JobActions smaller = stepped(one, {});
  CHECK(smaller.status.at("completedIndexes") == "0");
  CHECK(smaller.status.at("failedIndexes") == "");
}

TEST_CASE("a failed pod without an index does not keep the Job from creating its pods") {
  json alien = pod(0, "Failed", 1);
  alien["metadata"].erase("annotations");
  const JobActions actions = stepped(job(1), {alien});
  CHECK(indexes_created(actions) == std::vector<int>{0});
  CHECK(actions.status.at("failedIndexes") == "");
}

TEST_CASE("the delay of an index doubles with each failure, counted or ignored, up to ten minutes") {
  const std::pair<int, int> table[] = {{0, 10}, {1, 20}, {2, 40}, {5, 320}, {6, 600}, {20, 600}};
  for (const auto& [failures, delay] : table) {
    CAPTURE(failures);
    const json many = job(1, {{"backoffLimitPerIndex", 100}});
    CHECK(stepped(many, {pod(0, "Failed", 1, failures)}).again == noon + seconds(delay));
    json ignored = pod(0, "Failed", 1);
    ignored["metadata"]["annotations"]["batch.kubernetes.io/job-index-ignored-failure-count"] =
        std::to_string(failures);
    CHECK(stepped(many, {ignored}).again == noon + seconds(delay));
  }
}

TEST_CASE("each index has its own delay, which follows from its pod with the most failures") {
  const json many = job(2, {{"backoffLimitPerIndex", 9}});
  const JobActions actions =
      stepped(many, {pod(0, "Failed", 1, 3), pod(0, "Failed", 1, 2)}, noon + seconds(79));
  CHECK(indexes_created(actions) == std::vector<int>{1});
  CHECK(actions.again == noon + seconds(80));
  const JobActions both = stepped(many, {pod(0, "Failed", 1, 3), pod(1, "Failed", 1, 0)});
  CHECK(both.again == noon + seconds(10));
  const JobActions due = stepped(many, {pod(0, "Failed", 1, 3)}, noon + seconds(80));
  CHECK(due.create.at(0).failures == 4);
  CHECK(due.create.at(0).ignored == 0);
}

TEST_CASE("an index fails when it has more failures than backoffLimitPerIndex") {
  for (const auto& [failures, limit, given_up] : {std::tuple(1, 2, false), {2, 2, true}, {0, 0, true}}) {
    CAPTURE(failures);
    const json status =
        stepped(job(2, {{"backoffLimitPerIndex", limit}}), {pod(0, "Failed", 1, failures)}).status;
    CHECK(status.at("failedIndexes") == (given_up ? "0" : ""));
  }
  // An index does not fail if it has succeeded meanwhile, or if its failure is counted already.
  json done = job(2, {{"backoffLimitPerIndex", 0}});
  done["status"]["completedIndexes"] = "0";
  CHECK(stepped(done, {pod(0, "Failed", 1)}).status.at("failedIndexes") == "");
  CHECK(stepped(job(2, {{"backoffLimitPerIndex", 0}}), {counted(pod(0, "Failed", 1))})
            .status.at("failedIndexes") == "");
}

TEST_CASE("a running pod of a failed index is removed") {
  const json failing = pod(0, "Failed", 1, 2), still = pod(0, "Running", 0, 1), other = pod(1, "Running");
  CHECK(stepped(job(3), {failing, still, other}).remove == names_of_samples({still}));
}

TEST_CASE("a Job may have as many failed indexes as maxFailedIndexes says, and one more ends the Job") {
  const auto verdict = [](int most) {
    json failing = job(4, {{"maxFailedIndexes", most}, {"backoffLimitPerIndex", 0}});
    failing["status"]["failedIndexes"] = "0,1";
    return stepped(failing, {}).status.value("/conditions/0/reason"_json_pointer, "none");
  };
  CHECK(verdict(1) == "MaxFailedIndexesExceeded");
  CHECK(verdict(2) == "none");
}

TEST_CASE("all indexes of a Job wait together after a failure if the Job has no backoffLimitPerIndex") {
  const json common = job(2, {{"backoffLimitPerIndex", nullptr}, {"backoffLimit", 9}});
  const auto at = [](json object, const char* time) {
    object["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = time;
    return object;
  };
  CHECK(stepped(common, {pod(0, "Failed", 1)}).again == noon + seconds(10));
  const std::vector<json> two = {pod(0, "Failed", 1), at(pod(0, "Failed", 1), "2026-11-21T12:00:05Z")};
  CHECK(stepped(common, two, noon + seconds(5)).again == noon + seconds(25));
  CHECK(indexes_created(stepped(common, {pod(0, "Failed", 1)}, noon + seconds(10))) ==
        std::vector<int>{0, 1});
  // A success resets the common delay.
  CHECK(indexes_created(stepped(common, {pod(0, "Failed", 1), pod(1, "Succeeded")})) == std::vector<int>{0});
  const std::vector<json> anew = {at(pod(0, "Failed", 1), "2026-11-21T12:00:05Z"), pod(1, "Succeeded")};
  CHECK(stepped(common, anew, noon + seconds(5)).again == noon + seconds(15));
  CHECK(stepped(common,
                {pod(0, "Failed", 1), pod(0, "Failed", 1), at(pod(1, "Succeeded"), "2026-11-21T11:59:59Z")})
            .again == noon + seconds(20));
}

TEST_CASE("a Job ends if it has more failures than backoffLimit, and ignored failures do not count") {
  json limited = job(3, {{"backoffLimitPerIndex", nullptr}, {"backoffLimit", 1}});
  const auto reason = [&](const std::vector<json>& pods) {
    return stepped(limited, pods).status.value("/conditions/0/reason"_json_pointer, "none");
  };
  CHECK(reason({pod(0, "Failed", 1)}) == "none");
  CHECK(reason({pod(0, "Failed", 1), pod(1, "Failed", 1)}) == "BackoffLimitExceeded");
  CHECK(reason({pod(0, "Failed", 1), counted(pod(1, "Failed", 1))}) == "none");
  limited["status"]["failed"] = 1;
  CHECK(reason({pod(0, "Failed", 1)}) == "BackoffLimitExceeded");
  limited["spec"]["podFailurePolicy"] =
      R"({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]})"_json;
  CHECK(reason({pod(0, "Failed", 1)}) == "none");
}

TEST_CASE("a Job that ends gets a condition, a message, a time and an event for the reason of its end") {
  const json ended = job(1);
  JobActions good = stepped(ended, {counted(pod(0, "Succeeded"))});
  CHECK(good.status.value("conditions", json::array()).empty());  // the success is not counted yet
  json done = job(1);
  done["status"]["completedIndexes"] = "0";
  good = stepped(done, {});
  const json time = "2026-11-21T12:00:00Z";
  const auto condition = [&](const char* type, const char* reason, const char* message) {
    return json{{"type", type},       {"status", "True"},      {"reason", reason},
                {"message", message}, {"lastProbeTime", time}, {"lastTransitionTime", time}};
  };
  const char* reached = "Reached expected number of succeeded pods";
  CHECK(good.status.at("conditions") == json{condition("SuccessCriteriaMet", "CompletionsReached", reached),
                                             condition("Complete", "CompletionsReached", reached)});
  CHECK(good.status.at("completionTime") == time);
  CHECK(said_events(good) == std::vector<std::string>{"Normal Completed: Job completed"});
  json late = job(1, {{"activeDeadlineSeconds", 3600}});
  const JobActions over = stepped(late, {});
  const char* longer = "Job was active longer than specified deadline";
  CHECK(over.status.at("conditions") == json{condition("FailureTarget", "DeadlineExceeded", longer),
                                             condition("Failed", "DeadlineExceeded", longer)});
  CHECK_FALSE(over.status.contains("completionTime"));
  CHECK(said_events(over) == std::vector<std::string>{std::string("Warning DeadlineExceeded: ") + longer});
  for (const auto& [status, message] :
       {std::pair{R"({"failedIndexes": "0", "completedIndexes": "1"})", "Job has failed indexes"},
        {R"({"failed": 9})", "Job has reached the specified backoff limit"}}) {
    json failing = job(2, {{"backoffLimit", 8}});
    failing["status"] = json::parse(status);
    CHECK(stepped(failing, {}).status.at("conditions").at(0).at("message") == message);
  }
}

TEST_CASE("after a Job has decided to fail, it ends as Failed, even if its last pods succeed") {
  json decided = job(2);
  decided["status"]["conditions"] =
      R"([{"type": "FailureTarget", "status": "True", "reason": "Why", "message": "because"}])"_json;
  const JobActions actions = stepped(decided, {pod(0, "Succeeded"), pod(1, "Succeeded")});
  CHECK(actions.status.at("conditions").size() == 1);
  CHECK(actions.release.size() == 2);
  decided["status"] = actions.status;
  const json after = stepped(decided, {}).status;
  CHECK(after.at("conditions").at(1).at("type") == "Failed");
  CHECK(after.at("conditions").at(1).at("reason") == "Why");
  CHECK(after.at("conditions").at(1).at("message") == "because");
  decided["status"]["conditions"][0]["status"] = "False";
  CHECK(stepped(decided, {}).status.at("conditions").back().at("type") == "Complete");
}

TEST_CASE("a success policy ends a Job only after two seconds, so that other ranks may end, too") {
  const json some = {{"successPolicy", {{"rules", {{{"succeededCount", 1}}}}}}};
  const std::vector<json> pods = {pod(0, "Succeeded"), pod(1, "Running")};
  const JobActions early = stepped(job(2, some), pods, noon + std::chrono::milliseconds(1999));
  CHECK(early.again == noon + seconds(2));
  CHECK(early.remove.empty());
  const JobActions due = stepped(job(2, some), pods, noon + seconds(2));
  CHECK(due.status.at("conditions").at(0).at("message") == "Matched rules at index 0");
  CHECK(due.remove.size() == 1);
  json all = job(1, some);
  CHECK(stepped(all, {pod(0, "Succeeded")}).status.at("conditions").at(0).at("reason") == "SuccessPolicy");
}

TEST_CASE(
    "a suspended Job has no deadline, and its conditions and events say when it is suspended or resumed") {
  const json running = pod(0, "Running"), ending = going(pod(1, "Running"));
  json suspended = job(2, {{"suspend", true}, {"activeDeadlineSeconds", 1}});
  const JobActions actions = stepped(suspended, {running, ending, pod(0, "Failed", 1)});
  CHECK(actions.remove == names_of_samples({running}));
  CHECK_FALSE(actions.again);
  CHECK(said_events(actions) ==
        std::vector<std::string>{"Normal SuccessfulDelete: Deleted pod: " + name_of_sample(running),
                                 "Normal Suspended: Job suspended"});
  CHECK(actions.status.at("conditions").at(0).at("message") == "Job suspended");
  suspended["status"] = actions.status;
  CHECK(said_events(stepped(suspended, {})).empty());
  json resumed = job(1, {{"activeDeadlineSeconds", 50}});
  resumed["status"] = actions.status;
  const JobActions again = stepped(resumed, {});
  CHECK(said_events(again) == std::vector<std::string>{"Normal Resumed: Job resumed"});
  CHECK(again.status.at("conditions").at(0).at("status") == "False");
  CHECK(again.status.at("conditions").at(0).at("reason") == "JobResumed");
  CHECK(again.status.at("conditions").size() == 1);
  CHECK(again.again == noon + seconds(50));
}

TEST_CASE("a Job ends in the exact second of its deadline") {
  const json limited = job(1, {{"activeDeadlineSeconds", 3605}});
  CHECK(stepped(limited, {pod(0, "Running")}, noon + seconds(4)).again == noon + seconds(5));
  CHECK(stepped(limited, {pod(0, "Running")}, noon + seconds(4)).remove.empty());
  CHECK(stepped(limited, {pod(0, "Running")}, noon + seconds(5)).remove.size() == 1);
}

TEST_CASE("a terminating pod counts towards the parallelism if podReplacementPolicy is Failed") {
  const json wide = job(4, {{"parallelism", 2}});
  CHECK(indexes_created(stepped(wide, {going(pod(0, "Running")), pod(1, "Running")})).empty());
  CHECK(indexes_created(stepped(wide, {going(pod(0, "Running"))})) == std::vector<int>{1});
  json at_once = job(4, {{"parallelism", 2},
                         {"podReplacementPolicy", "TerminatingOrFailed"},
                         {"backoffLimitPerIndex", nullptr}});
  CHECK(indexes_created(stepped(at_once, {going(pod(0, "Running"))}, noon + seconds(10))) ==
        std::vector<int>{0, 1});
}

TEST_CASE("a Job creates the pods of all indexes that have no pod, up to its parallelism") {
  CHECK(indexes_created(stepped(job(4), {pod(0, "Running"), pod(2, "Running")})) == std::vector<int>{1, 3});
  CHECK(indexes_created(stepped(job(4, {{"parallelism", 1}}), {pod(2, "Running")})).empty());
}

TEST_CASE("a pod of a Job has the template of the Job, a name of its own and the annotations of its index") {
  json sample = job(3, without_limit_by_index);
  sample["spec"].erase("backoffLimitPerIndex");
  sample["spec"]["template"]["metadata"]["annotations"] = {{"a", "b"}};
  sample["spec"]["template"]["spec"]["containers"][0]["env"] =
      R"([{"name": "JOB_COMPLETION_INDEX", "value": "mine"}])"_json;
  const json made = pod_of(sample, {1, 2, 3}, "abcde");
  CHECK(made.at("metadata") == R"({"name": "j-1-abcde", "generateName": "j-1-",
    "labels": {"app": "x", "batch.kubernetes.io/job-completion-index": "1"},
    "annotations": {"a": "b", "batch.kubernetes.io/job-completion-index": "1"},
    "finalizers": ["batch.kubernetes.io/job-tracking"],
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid",
                         "controller": true, "blockOwnerDeletion": true}]})"_json);
  CHECK(made.at("spec").at("containers").at(0).at("env") ==
        R"([{"name": "JOB_COMPLETION_INDEX", "value": "mine"}])"_json);
  CHECK(made.at("kind") == "Pod");
  CHECK(made.at("apiVersion") == "v1");
  const json by_index = pod_of(job(3), {1, 2, 3}, "abcde");
  CHECK(by_index.at("metadata").at("annotations") == R"({"batch.kubernetes.io/job-completion-index": "1",
    "batch.kubernetes.io/job-index-failure-count": "2", "batch.kubernetes.io/job-index-ignored-failure-count": "3"})"_json);
  CHECK(
      by_index.at("spec").at("containers").at(0).at("env").at(0).at("valueFrom") ==
      R"({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}})"_json);
  CHECK_FALSE(pod_of(job(3), {1, 2, 0}, "x")
                  .at("metadata")
                  .at("annotations")
                  .contains("batch.kubernetes.io/job-index-ignored-failure-count"));
}

TEST_CASE("a Job is finished if its condition Complete or Failed is True") {
  for (const auto& [type, status, finished] : {std::tuple("Complete", "True", true),
                                               {"Failed", "True", true},
                                               {"Failed", "False", false},
                                               {"FailureTarget", "True", false}}) {
    const json sample = {{"status", {{"conditions", {{{"type", type}, {"status", status}}}}}}};
    CHECK(is_finished(sample) == finished);
  }
  CHECK_FALSE(is_finished(json::object()));
}
