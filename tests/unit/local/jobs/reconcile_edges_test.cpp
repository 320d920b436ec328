// The Job controller's decisions in cases where two pods, or two times, could be confused.
#include <doctest/doctest.h>

#include "cli/local/jobs/reconcile.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/jobs/reconcile_edges");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;
using std::chrono::seconds;

JobActions passed(const json& job, const std::vector<json>& pods, Time now = noon) {
  std::vector<const json*> pointers;
  for (const json& pod : pods) pointers.push_back(&pod);
  return reconcile(job, pointers, now);
}

json ended_at(json pod, const char* time) {
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = time;
  return pod;
}

std::vector<std::string> only_name(const json& pod) { return {pod.at("metadata").at("name")}; }

TEST_CASE("an index waits at most ten minutes for its next try, after any number of failures") {
  const json many = job(1, {{"backoffLimitPerIndex", 100000}});
  for (const int failures : {63, 64, 100, 1000})
    CHECK(passed(many, {pod(0, "Failed", 1, failures)}).again == noon + seconds(600));
}

TEST_CASE("an index is tried again at once if its failure has a time in the future") {
  for (const json& spec : {json{{"backoffLimitPerIndex", 3}}, json{{"backoffLimit", 3}}}) {
    const JobActions actions =
        passed(job(1, spec), {ended_at(pod(0, "Failed", 1, 0), "2026-11-21T12:50:00Z")});
    CHECK(actions.create.size() == 1);
    CHECK_FALSE(actions.again);
  }
}

TEST_CASE("the deadline of a Job counts from now if its start has a time in the future") {
  json limited = job(1, {{"activeDeadlineSeconds", 60}});
  limited["status"]["startTime"] = "2037-01-01T00:00:00Z";
  const JobActions actions = passed(limited, {pod(0, "Running", 0, 0)});
  CHECK(actions.status.at("startTime") == "2026-11-21T12:00:00Z");
  CHECK(actions.again == noon + seconds(60));
}

TEST_CASE(
    "if two failed pods of an index have the same number of failures, the first in the list is released") {
  const json first = ended_at(pod(0, "Failed", 1, 1), "2026-11-21T12:00:50Z"),
             second = pod(0, "Failed", 1, 1);
  const JobActions actions = passed(job(1), {first, second});
  CHECK(actions.again == noon + seconds(20));
  CHECK(actions.release == only_name(first));
}

TEST_CASE("a failed pod is kept until another pod of its index stores a larger number of failures") {
  const json failed = pod(0, "Failed", 1, 1);
  CHECK(passed(job(2), {failed, pod(0, "Running", 0, 1)}).release.empty());
  CHECK(passed(job(2), {failed, pod(1, "Running", 0, 2)}).release.empty());
  CHECK(passed(job(2), {failed, pod(0, "Running", 0, 2)}).release == only_name(failed));
  CHECK(passed(job(2), {failed, pod(0, "Pending", 0, 2)}).release == only_name(failed));
}

TEST_CASE("a pod without an index is released if it has ended or is being deleted") {
  for (const char* phase : {"Succeeded", "Failed"}) {
    json alien = pod(0, phase, 1);
    alien["metadata"]["annotations"].erase("batch.kubernetes.io/job-completion-index");
    const JobActions actions = passed(job(1), {alien});
    CHECK(actions.release == only_name(alien));
    CHECK(actions.status.at("uncountedTerminatedPods") == json::object());
    CHECK(actions.create.size() == 1);
  }
  json running = pod(0, "Running");
  running["metadata"]["annotations"].erase("batch.kubernetes.io/job-completion-index");
  CHECK(passed(job(1), {running}).release.empty());
  running["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  CHECK(passed(job(1), {running}).release == only_name(running));
}

TEST_CASE("a success policy ends the Job two seconds after the last success, even if a pod failed later") {
  const json some = {{"successPolicy", {{"rules", {{{"succeededCount", 1}}}}}}};
  const json good = ended_at(pod(0, "Succeeded"), "2026-11-21T11:59:58Z");
  const JobActions actions = passed(job(3, some), {good, pod(1, "Failed", 1)});
  CHECK(actions.status.at("conditions").at(0).at("reason") == "SuccessPolicy");
  const JobActions two = passed(job(3, some), {ended_at(pod(1, "Succeeded"), "2026-11-21T11:59:59Z"), good});
  CHECK(two.again == noon + seconds(1));
}

TEST_CASE("a Job continues if its condition has no type, or has a status other than True") {
  for (const char* condition :
       {R"({"type": "FailureTarget"})", R"({"type": "SuccessCriteriaMet", "status": "Unknown"})",
        R"({"status": "True"})"}) {
    json undecided = job(1);
    undecided["status"]["conditions"] = json::array({json::parse(condition)});
    const JobActions actions = passed(undecided, {});
    CHECK(actions.create.size() == 1);
    CHECK(actions.status.at("conditions") == undecided["status"]["conditions"]);
  }
}

TEST_CASE("a Job without pods ends in one step if the reason of its end does not depend on pods") {
  const struct {
    json spec, status;
    const char* type;
    const char* reason;
  } table[] = {
      {{{"backoffLimit", 8}}, {{"failed", 9}}, "Failed", "BackoffLimitExceeded"},
      {json::object(), {{"failedIndexes", "0"}, {"completedIndexes", "1,2"}}, "Failed", "FailedIndexes"},
      {{{"maxFailedIndexes", 0}}, {{"failedIndexes", "0"}}, "Failed", "MaxFailedIndexesExceeded"},
      {{{"activeDeadlineSeconds", 1}}, {{"startTime", "2026-11-21T11:00:00Z"}}, "Failed", "DeadlineExceeded"},
      {{{"successPolicy", {{"rules", {{{"succeededCount", 1}}}}}}},
       {{"completedIndexes", "2"}},
       "Complete",
       "SuccessPolicy"},
      {json::object(), {{"completedIndexes", "0-2"}}, "Complete", "CompletionsReached"}};
  for (const auto& row : table) {
    CAPTURE(row.reason);
    json ending = job(3, row.spec);
    ending["status"] = row.status;
    const json status = passed(ending, {}).status;
    const json& conditions = status.at("conditions");
    REQUIRE(conditions.size() == 2);
    const bool good = row.type == std::string("Complete");
    CHECK(conditions[0].at("type") == (good ? "SuccessCriteriaMet" : "FailureTarget"));
    CHECK(conditions[1].at("type") == row.type);
    for (const json& condition : conditions) {
      CHECK(condition.at("status") == "True");
      CHECK(condition.at("reason") == row.reason);
    }
    CHECK(status.contains("completionTime") == good);
  }
}

}  // namespace
}  // namespace mlk::local
