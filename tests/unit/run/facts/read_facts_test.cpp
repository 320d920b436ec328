// Tests the source and the default of every value that read_facts() takes from a Job, a pod or an event.
#include "cli/run/facts/read_facts.h"

#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/owner.h"
#include "cli/run/state/status.h"
#include "cli/util/json_path.h"
#include "tests/unit/run/plain_pods.h"

TEST_SUITE_BEGIN("run/facts/read_facts");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace nlohmann::literals;
using told::midday;
using told::plain_job;
using told::plain_pod;

PodFacts read(const json& pod) {
  RunObjects objects;
  objects.pods = {pod};
  return read_facts(objects).pods.at(0);
}

PodFacts read_pod(const json& patch) {
  json pod = plain_pod();
  pod.merge_patch(patch);
  return read(pod);
}

PodFacts read_state(const json& state) {
  return read_pod({{"status", {{"containerStatuses", {{{"name", "main"}, {"state", state}}}}}}});
}

JobFacts read_job(const json& patch) {
  json job = plain_job();
  job.merge_patch(patch);
  RunObjects objects;
  objects.jobs = {job};
  return read_facts(objects).jobs.at(0);
}

json condition_of_type(const std::string& type, const std::string& reason = "Because",
                       const std::string& status = "True") {
  return {{"type", type},
          {"status", status},
          {"reason", reason},
          {"message", "in words"},
          {"lastTransitionTime", "2026-01-03T12:00:00Z"}};
}

json with_conditions(std::initializer_list<json> conditions) {
  return {{"status", {{"conditions", json::array_t(conditions)}}}};
}

TEST_CASE("a pod is read with its names, node, rank and earlier failures") {
  const PodFacts pod = read(plain_pod());
  CHECK(pod.name == "r-worker-2-abcde");
  CHECK(pod.uid == "pod-uid");
  CHECK(pod.job == "r-worker");
  CHECK(pod.role == "worker");
  CHECK(pod.node == "n1");
  CHECK(pod.rank == 2);
  CHECK(pod.image == "image:1");
  CHECK(pod.phase == "Running");
  CHECK(pod.scheduled);
  CHECK(pod.created == parse_time("2026-01-03T11:00:00Z"));
  CHECK_FALSE(pod.deleting);
  CHECK_FALSE(pod.exit_code);
  CHECK(pod.counted_before == 0);
  CHECK(pod.failures_before == 0);

  const PodFacts again = read_pod(R"({"metadata": {"deletionTimestamp": "2026-01-03T11:30:00Z",
    "annotations": {"batch.kubernetes.io/job-index-failure-count": "3",
                    "batch.kubernetes.io/job-index-ignored-failure-count": "2"}}})"_json);
  CHECK(again.counted_before == 3);
  CHECK(again.failures_before == 5);
  CHECK(again.deleting);
  CHECK_FALSE(read_pod(R"({"spec": {"nodeName": null}})"_json).scheduled);
  for (const char* no_number : {"", "x", "2x", "99999999999"}) {
    CHECK(
        read_pod({{"metadata", {{"annotations", {{"batch.kubernetes.io/job-completion-index", no_number}}}}}})
            .rank == 0);
  }
}

TEST_CASE("a pod's start, end and reason for waiting are read from the container `main`") {
  const PodFacts waiting = read_state({{"waiting", {{"reason", "ErrImagePull"}, {"message", "no host"}}}});
  CHECK(waiting.waiting_reason == "ErrImagePull");
  CHECK(waiting.waiting_message == "no host");
  CHECK_FALSE(waiting.started);
  CHECK(read_state({{"running", {{"startedAt", "2026-01-03T12:00:00Z"}}}}).started == midday);

  const PodFacts ended = read_state({{"terminated",
                                      {{"exitCode", 3},
                                       {"reason", "Error"},
                                       {"message", "gone"},
                                       {"startedAt", "2026-01-03T11:59:00Z"},
                                       {"finishedAt", "2026-01-03T12:00:00Z"}}}});
  CHECK(ended.exit_code == 3);
  CHECK(ended.end_reason == "Error");
  CHECK(ended.end_message == "gone");
  CHECK(ended.started == parse_time("2026-01-03T11:59:00Z"));
  CHECK(ended.finished == midday);
  CHECK(read_state({{"terminated", json::object()}}).exit_code == -1);
  const PodFacts never = read_state(
      {{"terminated", {{"startedAt", "1970-01-01T00:00:00Z"}, {"finishedAt", "1970-01-01T00:00:00Z"}}}});
  CHECK_FALSE(never.started);
  CHECK_FALSE(never.finished);
  CHECK(read_pod({{"status", {{"containerStatuses", json::array()}}}}).waiting_reason.empty());
}

TEST_CASE("an unscheduled pod shows the scheduler's message, or else the reason of the condition") {
  CHECK(read_pod(with_conditions({condition_of_type("PodScheduled", "Unschedulable", "False")}))
            .unschedulable == "in words");
  json silent = condition_of_type("PodScheduled", "SchedulingGated", "False");
  silent.erase("message");
  CHECK(read_pod(with_conditions({silent})).unschedulable == "SchedulingGated");
  CHECK(read_pod(with_conditions({condition_of_type("PodScheduled")})).unschedulable.empty());
}

TEST_CASE("the condition DisruptionTarget gives a failed pod its end time if no container has one") {
  json patch = with_conditions({condition_of_type("DisruptionTarget", "PreemptionByScheduler")});
  CHECK(read_pod(patch).disruption == "PreemptionByScheduler");
  CHECK(read_pod(patch).disruption_message == "in words");
  CHECK_FALSE(read_pod(patch).finished);
  patch["status"]["phase"] = "Failed";
  CHECK(read_pod(patch).finished == midday);
  CHECK(read_pod(with_conditions({condition_of_type("DisruptionTarget", "x", "False")})).disruption.empty());
  patch["status"]["containerStatuses"] =
      R"([{"name": "main", "state": {"terminated": {"finishedAt": "2026-01-03T11:00:00Z"}}}])"_json;
  CHECK(read_pod(patch).finished == parse_time("2026-01-03T11:00:00Z"));
}

TEST_CASE("a pod without end times counts as ended at the time when it stopped being ready") {
  json patch = with_conditions({condition_of_type("Ready", "PodFailed", "False")});
  patch["metadata"]["deletionTimestamp"] = "2026-01-03T12:30:00Z";
  CHECK_FALSE(read_pod(patch).finished);  // it runs
  for (const char* phase : {"Failed", "Succeeded"}) {
    patch["status"]["phase"] = phase;
    CHECK(read_pod(patch).finished == midday);
  }
  patch["status"]["conditions"] = json::array();
  CHECK(read_pod(patch).finished == parse_time("2026-01-03T12:30:00Z"));
}

TEST_CASE("a Job is read with its ranks, tries, time limit and queue") {
  const JobFacts job = read_job(json::object());
  CHECK(job.name == "r-worker");
  CHECK(job.uid == "job-uid");
  CHECK(job.role == "worker");
  CHECK(job.completions == 4);
  CHECK(job.parallelism == 4);
  CHECK(job.needed == 4);
  CHECK(job.enough == 4);
  CHECK(job.attempts == 1);
  CHECK(job.time_limit == 0);
  CHECK(job.queue.empty());
  CHECK_FALSE(job.suspended);
  CHECK_FALSE(job.deleting);
  CHECK_FALSE(job.finished);
  CHECK(job.replaced_when_terminating);

  const JobFacts full = read_job(R"({
    "metadata": {"deletionTimestamp": "2026-01-03T12:00:00Z", "annotations": {"mlk.dev/trains": "true"},
                 "labels": {"kueue.x-k8s.io/queue-name": "research"}},
    "spec": {"parallelism": 3, "maxFailedIndexes": 1, "backoffLimitPerIndex": 5, "backoffLimit": 9, "suspend": true,
             "activeDeadlineSeconds": 60, "podReplacementPolicy": "Failed", "successPolicy": {}},
    "status": {"active": 2, "startTime": "2026-01-03T12:00:00Z", "completedIndexes": "0,2-3", "failedIndexes": "1"}})"_json);
  CHECK(full.parallelism == 3);
  CHECK(full.needed == 3);
  CHECK(full.enough == 1);
  CHECK(full.trains);
  CHECK(full.attempts == 6);
  CHECK(full.time_limit == 60);
  CHECK(full.queue == "research");
  CHECK(full.suspended);
  CHECK(full.deleting);
  CHECK(full.has_success_policy);
  CHECK_FALSE(full.replaced_when_terminating);
  CHECK(full.active == 2);
  CHECK(full.started == midday);
  CHECK(full.completed == Indexes{0, 2, 3});
  CHECK(full.failed_ranks == Indexes{1});
  CHECK(read_job(R"({"spec": {"backoffLimit": 9}})"_json).attempts == 10);
  CHECK(read_job(R"({"spec": {"maxFailedIndexes": 9}})"_json).needed == 0);
  CHECK(read_job(R"({"spec": {"maxFailedIndexes": 9}})"_json).enough == 1);
  CHECK(read_job(R"({"spec": {"maxFailedIndexes": -9}})"_json).needed == 4);
  CHECK(read_job(R"({"spec": {"completions": 1000000}})"_json).completions == 100000);
  CHECK(read_job(R"({"spec": {"completions": -1, "parallelism": -1}})"_json).completions == 0);
  CHECK(read_job(R"({"spec": {"completions": null, "parallelism": null}})"_json).completions == 1);
}

TEST_CASE("a Job is ending if it has decided its end but is neither Failed nor Complete yet") {
  const JobFacts complete = read_job(with_conditions({condition_of_type("Complete")}));
  CHECK(complete.end == JobFacts::End::succeeded);
  CHECK(complete.finished);
  CHECK(complete.ended_at == midday);

  const JobFacts failed = read_job(
      with_conditions({condition_of_type("FailureTarget", "early"), condition_of_type("Failed", "late")}));
  CHECK(failed.end == JobFacts::End::failed);
  CHECK(failed.finished);
  CHECK_FALSE(failed.ending);
  CHECK(failed.end_reason == "late");
  CHECK(failed.end_message == "in words");

  const JobFacts failing = read_job(with_conditions({condition_of_type("FailureTarget")}));
  CHECK(failing.end == JobFacts::End::none);
  CHECK_FALSE(failing.finished);
  CHECK(failing.ending);
  CHECK(failing.failing);
  CHECK(failing.end_reason == "Because");
  CHECK(failing.end_message == "in words");
  CHECK(failing.ended_at == midday);
  const JobFacts succeeding = read_job(with_conditions({condition_of_type("SuccessCriteriaMet")}));
  CHECK(succeeding.ending);
  CHECK_FALSE(succeeding.failing);
  CHECK(read_job(with_conditions({condition_of_type("Failed", "x", "False")})).end == JobFacts::End::none);

  json undated = condition_of_type("Complete");
  undated.erase("lastTransitionTime");
  json patch = with_conditions({undated});
  patch["status"]["completionTime"] = "2026-01-03T12:00:00Z";
  CHECK(read_job(patch).ended_at == midday);
}

TEST_CASE("the deciding Job is the marked Job, else one with a success policy, else the workers' Job") {
  const auto decider = [](std::vector<json> jobs) {
    RunObjects objects;
    objects.jobs = std::move(jobs);
    const Facts facts = read_facts(objects);
    for (const JobFacts& job : facts.jobs) CHECK(job.decides == (&job == &facts.jobs.front()));
    return facts.jobs.front().role;
  };
  json chief = plain_job("chief"), worker = plain_job("worker"), server = plain_job("server");
  CHECK(decider({chief, worker, server}) == "worker");
  CHECK(decider({server, chief}) == "chief");  // ordered by name
  CHECK(decider({server}) == "server");
  server["spec"]["successPolicy"] = json::object();
  CHECK(decider({worker, server}) == "server");
  chief["metadata"]["annotations"]["mlk.dev/decides"] = "true";
  CHECK(decider({worker, server, chief}) == "chief");
  chief["metadata"]["annotations"]["mlk.dev/decides"] = "false";
  CHECK(decider({worker, server, chief}) == "server");
}

TEST_CASE("pods are sorted by creation time, then by earlier failures of the rank, then by name") {
  RunObjects objects;
  const auto add = [&](const char* name, const char* created, const char* failures) {
    json pod = plain_pod();
    pod["metadata"]["name"] = name;
    pod["metadata"]["creationTimestamp"] = created;
    pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = failures;
    objects.pods.push_back(pod);
  };
  add("e", "2026-01-03T12:00:00Z", "0");
  add("c", "2026-01-03T11:00:00Z", "1");
  add("d", "2026-01-03T11:00:00Z", "1");
  add("z", "2026-01-03T11:00:00Z", "0");
  std::string order;
  for (const PodFacts& pod : read_facts(objects).pods) order += pod.name;
  CHECK(order == "zcde");
}

TEST_CASE("the end of a pod is final if the podFailurePolicy of its Job makes the Job fail") {
  json job = plain_job(), pod = plain_pod();
  pod["status"] =
      R"({"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 65}}}]})"_json;
  const auto final = [&](const json& rules) {
    job["spec"]["podFailurePolicy"]["rules"] = rules;
    RunObjects objects;
    objects.jobs = {job};
    objects.pods = {pod};
    return read_facts(objects).pods.at(0).final;
  };
  const json fails_65 =
      R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [64, 65]}})"_json;
  const json ignores_65 = R"({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [65]}})"_json;
  const json on_disruption =
      R"({"action": "FailJob", "onPodConditions": [{"type": "Other"}, {"type": "DisruptionTarget", "status": "True"}]})"_json;
  CHECK_FALSE(final(json::array()));
  CHECK(final(json::array({fails_65})));
  CHECK_FALSE(final(json::array({ignores_65, fails_65})));
  CHECK(final(json::array({fails_65, ignores_65})));
  CHECK_FALSE(final(
      json::array({R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}})"_json})));
  CHECK(final(
      json::array({R"({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}})"_json})));
  CHECK_FALSE(final(
      json::array({R"({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [65]}})"_json})));
  CHECK_FALSE(final(json::array({on_disruption})));
  pod["status"]["conditions"] = {condition_of_type("DisruptionTarget", "x", "False")};
  CHECK_FALSE(final(json::array({on_disruption})));
  pod["status"]["conditions"] = {condition_of_type("DisruptionTarget")};
  CHECK(final(json::array({on_disruption})));
  CHECK(final(
      json::array({R"({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]})"_json})));
  pod["status"]["phase"] =
      "Running";  // the pod waits for another container, and its program's end will not change
  CHECK(final(json::array({fails_65})));
  pod["status"]["containerStatuses"][0]["state"] = {{"running", json::object()}};
  CHECK_FALSE(final(json::array({fails_65})));
  pod["status"]["containerStatuses"][0]["state"] = {{"terminated", {{"exitCode", 65}}}};
  pod["status"]["phase"] = "Failed";
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 0;
  CHECK_FALSE(final(
      json::array({R"({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}})"_json})));
  pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = "another";
  CHECK_FALSE(final(json::array({on_disruption})));
}

TEST_CASE("an unfinished Job counts as failing if the end of one of its pods is final") {
  json job = plain_job(), pod = plain_pod();
  pod["spec"]["containers"].erase(1);
  job["spec"]["podFailurePolicy"]["rules"] = {
      R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [65]}})"_json};
  pod["status"] =
      R"({"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 65}}}]})"_json;
  const auto decider = [&] {
    RunObjects objects;
    objects.jobs = {job};
    objects.pods = {pod};
    return read_facts(objects).jobs.at(0);
  };
  CHECK(decider().ending);
  CHECK(decider().failing);
  CHECK(decider().end_reason == "PodFailurePolicy");
  CHECK(decider().end_message.find("/r-worker-2-abcde ") != std::string::npos);
  CHECK_FALSE(decider().ended_at);
  job["status"]["startTime"] = "2026-01-03T11:00:00Z";
  CHECK(decider().failing);
  job["status"]["startTime"] = "2026-01-03T11:00:01Z";  // the pod belongs to an earlier start
  CHECK_FALSE(decider().ending);
  job["status"].erase("startTime");
  job["spec"]["suspend"] = true;
  CHECK_FALSE(decider().ending);
  job["spec"]["suspend"] = false;
  job["status"]["conditions"] = {condition_of_type("SuccessCriteriaMet")};
  CHECK_FALSE(decider().failing);
  job["status"]["conditions"] = {condition_of_type("Complete")};
  CHECK_FALSE(decider().failing);
}

TEST_CASE("all Jobs of a succeeded run count as succeeded") {
  json worker = plain_job("worker"), server = plain_job("server"), pod = plain_pod();
  worker["metadata"]["annotations"]["mlk.dev/trains"] = "true";
  worker["status"]["completedIndexes"] = "2";
  server["status"]["conditions"] = {condition_of_type("Failed")};
  pod["status"] = R"({"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated":
    {"exitCode": 0, "finishedAt": "2026-01-03T12:00:00Z"}}}]})"_json;
  json later = pod;
  later["metadata"]["uid"] = "later";
  later["status"]["phase"] = "Failed";
  later["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-01-03T13:00:00Z";
  RunObjects objects;
  objects.jobs = {server, worker};
  objects.pods = {later, pod};
  Facts facts = read_facts(objects);
  for (const JobFacts& job : facts.jobs) {
    CHECK(job.end == JobFacts::End::succeeded);
    CHECK(job.end_reason.empty());
    CHECK(job.end_message.empty());
    CHECK_FALSE(job.failing);
  }
  CHECK(facts.jobs.at(0).ended_at == midday);
  CHECK(facts.jobs.at(0).role == "worker");
  // A killed rank whose result says that the run is trained counts as well.
  objects.pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["message"] =
      R"({"schema":1,"done":true})";
  CHECK(read_facts(objects).jobs.at(0).ended_at == parse_time("2026-01-03T13:00:00Z"));
  // If the Job has reported the time of its end, this time is used.
  objects.jobs[1]["status"]["conditions"] = {condition_of_type("SuccessCriteriaMet")};
  objects.jobs[1]["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-03T14:00:00Z";
  CHECK(read_facts(objects).jobs.at(0).ended_at == parse_time("2026-01-03T14:00:00Z"));
}

TEST_CASE("read_facts() keeps the newest of several warnings about an object") {
  const auto event = [](const char* message, const char* at, const char* type = "Warning") {
    return json{{"type", type},
                {"reason", "FailedMount"},
                {"message", message},
                {"lastTimestamp", at},
                {"involvedObject", {{"uid", "u"}}}};
  };
  RunObjects objects;
  objects.events = {
      event("Failed to pull image: old", "2026-01-03T11:00:00Z"), event("newest", "2026-01-03T12:00:00Z"),
      event("Failed to pull image: new", "2026-01-03T11:30:00Z"), event("older", "2026-01-03T10:00:00Z"),
      event("normal", "2026-01-03T13:00:00Z", "Normal")};
  const Facts facts = read_facts(objects);
  REQUIRE(facts.warnings.size() == 1);
  CHECK(facts.warnings.at("u").message == "newest");
  CHECK(facts.warnings.at("u").reason == "FailedMount");
  CHECK(facts.warnings.at("u").at == midday);
  CHECK(facts.failed_pulls.at("u").message == "Failed to pull image: new");
}

TEST_CASE("the roles of a run are read from its owner") {
  const auto roles = [](const char* text) {
    return roles_of({{"metadata", {{"annotations", {{"mlk.dev/roles", text}}}}}});
  };
  CHECK(roles(R"({"worker": 5, "server": 0})") == std::map<std::string, int>{{"server", 0}, {"worker", 5}});
  CHECK(roles(R"({"worker": "five"})") == std::map<std::string, int>{{"worker", 0}});
  CHECK(roles("[5]").empty());
  CHECK(roles("").empty());
}

TEST_CASE("the time when a pod was asked to end is its deletionTimestamp minus the grace period") {
  json patch = R"({"metadata": {"deletionTimestamp": "2026-01-03T12:00:30Z",
                                "deletionGracePeriodSeconds": 30}})"_json;
  CHECK(read_pod(patch).asked_to_end == midday);
  patch["metadata"].erase("deletionGracePeriodSeconds");
  CHECK(read_pod(patch).asked_to_end == midday + std::chrono::seconds(30));
  CHECK_FALSE(read_pod(json::object()).asked_to_end);
  patch.update(with_conditions({condition_of_type("DisruptionTarget")}));
  CHECK(read_pod(patch).asked_to_end == midday);
}

TEST_CASE("the end of a pod is the end of `main` or of a plain container, whichever is later") {
  const auto finished = [](const char* kind, const json& side) {
    json pod = plain_pod();
    if (kind == std::string("initContainers")) pod["spec"]["containers"].erase(1);
    pod["spec"]["initContainers"] = {{{"name", "side"}}};
    if (kind == std::string("containers")) pod["spec"].erase("initContainers");
    const char* list = kind == std::string("containers") ? "containerStatuses" : "initContainerStatuses";
    pod["status"]["containerStatuses"] =
        R"([{"name": "main", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-03T12:00:00Z"}}}])"_json;
    pod["status"][list].push_back({{"name", "side"}, {"state", {{"terminated", side}}}});
    return read(pod).pod_finished;
  };
  const json later = {{"exitCode", 0}, {"finishedAt", "2026-01-03T12:00:05Z"}},
             earlier = {{"exitCode", 0}, {"finishedAt", "2026-01-03T11:00:00Z"}};
  CHECK(finished("containers", later) == midday + std::chrono::seconds(5));
  CHECK(finished("containers", earlier) == midday);
  CHECK(finished("containers", {{"exitCode", 0}}) == midday);
  CHECK(finished("initContainers", later) == midday);
}

TEST_CASE("the number of a trial is the entry of the Job's list at the index of the pod") {
  const auto number = [](const char* trials) {
    return read_pod({{"metadata", {{"annotations", {{"mlk.dev/trials", trials}}}}}}).number;
  };
  CHECK(number("4-6,9") == 6);  // the trial of index 2
  CHECK(number("") == 2);
  CHECK(read_pod({{"metadata", {{"annotations", {{"mlk.dev/trials", "4-6"}}}}}}).rank == 2);
}

TEST_CASE("a run counts as trained if its result has the key `schema`, and `done` is true") {
  const auto trained = [](const char* message) {
    return read_state({{"terminated", {{"exitCode", 1}, {"message", message}}}}).trained;
  };
  CHECK(trained(R"({"schema":1,"done":true})"));
  CHECK_FALSE(trained(R"({"schema":1,"done":false})"));
  CHECK_FALSE(trained(R"({"schema":1,"done":1})"));
  CHECK_FALSE(trained(R"({"schema":1})"));
  CHECK_FALSE(trained(R"({"done":true})"));
}

}  // namespace
}  // namespace mlk
