// Tests whether a next try comes, and which action a Job's policy has for an end. The rows test both values
// of each condition.
#include "cli/run/facts/next_try.h"

#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/facts.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/facts/next_try");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace nlohmann::literals;
using std::chrono::seconds;

const Time ended_at = *parse_time("2026-01-03T12:00:00Z");

std::optional<Time> next(const std::function<void(PodFacts&, JobFacts&)>& change) {
  PodFacts pod;
  pod.phase = "Failed";
  pod.exit_code = 1;
  pod.finished = pod.pod_finished = ended_at;
  JobFacts job;
  job.counts_by_rank = true;
  job.attempts = 4;
  change(pod, job);
  return next_try(pod, job);
}

TEST_CASE("the next try comes after a delay that doubles with each failure, up to ten minutes") {
  const auto after = [](int failures) {
    return *next([&](PodFacts& pod, JobFacts&) { pod.failures_before = failures; }) - ended_at;
  };
  CHECK(after(0) == seconds(10));
  CHECK(after(1) == seconds(20));
  CHECK(after(5) == seconds(320));
  CHECK(after(6) == seconds(600));
  CHECK(after(60) == seconds(600));
  // The delay begins when the last container of the pod has ended.
  CHECK(*next([](PodFacts& pod, JobFacts&) { pod.pod_finished = ended_at + seconds(5); }) - ended_at ==
        seconds(15));
}

TEST_CASE("next_try() predicts no try if the tries are used up or if the run, Job or rank is over") {
  CHECK(next([](PodFacts& pod, JobFacts&) { pod.counted_before = 2; }));
  CHECK_FALSE(next([](PodFacts& pod, JobFacts&) { pod.counted_before = 3; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.attempts = 1; }));  // retries: 0
  CHECK(next([](PodFacts&, JobFacts& job) {
    job.attempts = 1;
    job.counts_by_rank = false;  // `attempts` is the limit of all ranks together
  }));
  CHECK(next([](PodFacts& pod, JobFacts&) {
    pod.counted_before = 3;
    pod.action = PolicyAction::ignore;  // the failure does not count
  }));
  CHECK(next([](PodFacts& pod, JobFacts&) { pod.action = PolicyAction::count; }));
  CHECK_FALSE(next([](PodFacts& pod, JobFacts&) { pod.action = PolicyAction::fail_job; }));
  CHECK_FALSE(next([](PodFacts& pod, JobFacts&) { pod.action = PolicyAction::fail_index; }));
  CHECK_FALSE(
      next([](PodFacts& pod, JobFacts&) { pod.phase = "Running"; }));  // the pod waits for another container
  CHECK_FALSE(next([](PodFacts& pod, JobFacts&) { pod.pod_finished = pod.finished = std::nullopt; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.end = JobFacts::End::failed; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.ending = true; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.suspended = true; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.deleting = true; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.run_over = true; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.failed_ranks = {0}; }));
  CHECK_FALSE(next([](PodFacts&, JobFacts& job) { job.completed = {0}; }));
  CHECK(next([](PodFacts&, JobFacts& job) { job.completed = job.failed_ranks = {1}; }));
}

TEST_CASE("a rank whose last try has failed is shown as failed before the Job reports it") {
  test::Run run;
  run.job()["spec"]["backoffLimitPerIndex"] = 0;
  run.fail(run.pod(1), 200);
  RunStatus seen = run.observed();
  CHECK(seen.phase == Phase::running);
  CHECK(seen.why == "failing: worker/1: exit code 200");
  CHECK(seen.ranks.at(1).state == "Failed");
  CHECK(seen.ranks.at(1).reason == "exit code 200");
  run.job()["spec"]["maxFailedIndexes"] = 1;  // the run continues without this rank
  seen = run.observed();
  CHECK(seen.phase == Phase::running);
  CHECK(seen.why == "worker/1: failed for good: exit code 200");
  run.job()["spec"]["suspend"] = true;
  CHECK(run.observed().ranks.at(1).reason.find("next") == std::string::npos);
}

TEST_CASE("a rank of an ended run has no next try") {
  test::Run run;
  run.fail(run.server(), 1);
  CHECK(run.observed().ranks.at(3).reason == "exit code 1 (try 1 of 4, next in 5s)");
  run.condition("FailureTarget", "PodFailurePolicy");
  CHECK(run.observed().ranks.at(3).reason == "exit code 1 (try 1 of 4)");
  run.condition("Failed", "PodFailurePolicy");
  CHECK(run.observed().ranks.at(3).reason.find("next") == std::string::npos);
}

TEST_CASE("policy_action() takes the action of the first rule that matches the pod") {
  const json pod = R"({"status": {
    "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}},
                          {"name": "agent", "state": {"terminated": {"exitCode": 2}}}],
    "initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 128}}},
                              {"name": "next", "state": {"waiting": {"reason": "PodInitializing"}}}],
    "conditions": [{"type": "Ready", "status": "False"}, {"type": "DisruptionTarget", "status": "True"}]}})"_json;
  const auto action = [&](std::initializer_list<const char*> rules) {
    json job;
    for (const char* rule : rules) job["spec"]["podFailurePolicy"]["rules"].push_back(json::parse(rule));
    return policy_action(job, pod);
  };
  using enum PolicyAction;
  CHECK(action({}) == none);
  CHECK(action({R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}})"}) == fail_job);
  CHECK(action({R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}})"}) == none);
  CHECK(action({R"({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [128]}})"}) ==
        fail_index);
  CHECK(action({R"({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [2]}})"}) == count);
  CHECK(action({R"({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [2, 128]}})"}) == none);
  CHECK(
      action(
          {R"({"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [2, 128]}})"}) ==
      none);
  CHECK(
      action(
          {R"({"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [1]}})"}) ==
      none);
  CHECK(
      action(
          {R"({"action": "FailJob", "onExitCodes": {"containerName": "agent", "operator": "In", "values": [2]}})"}) ==
      fail_job);
  CHECK(
      action(
          {R"({"action": "FailJob", "onExitCodes": {"containerName": "fetch", "operator": "In", "values": [128]}})"}) ==
      fail_job);
  CHECK(
      action({R"({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})",
              R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}})"}) == ignore);
  CHECK(
      action(
          {R"({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]})"}) ==
      none);
  CHECK(action({R"({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]})"}) == ignore);
  CHECK(action({R"({"action": "Ignore", "onPodConditions": [{"type": "Ready", "status": "False"}]})"}) ==
        ignore);
}

}  // namespace
}  // namespace mlk
