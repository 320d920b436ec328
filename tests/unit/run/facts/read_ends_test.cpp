// Tests when programs and ranks count as running or failed, and when they end their run.
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/owner.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/state/status.h"
#include "tests/unit/run/plain_pods.h"

TEST_SUITE_BEGIN("run/facts/read_ends");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace nlohmann::literals;
using told::midday;
using told::plain_job;
using told::plain_pod;

TEST_CASE("the phase of a pod and the state of `main` show whether the program runs or has failed") {
  const auto runs_and_failed = [](const char* phase, std::optional<int> code, bool main_runs) {
    PodFacts pod;
    pod.phase = phase;
    pod.exit_code = code;
    pod.main_runs = main_runs;
    return std::pair(pod.program_runs(), pod.program_failed());
  };
  CHECK(runs_and_failed("Running", {}, false) == std::pair(true, false));
  CHECK(runs_and_failed("Pending", {}, true) == std::pair(true, false));
  CHECK(runs_and_failed("Pending", {}, false) == std::pair(false, false));
  CHECK(runs_and_failed("Running", 0, true) == std::pair(false, false));
  CHECK(runs_and_failed("Running", 3, true) == std::pair(false, true));
  CHECK(runs_and_failed("Succeeded", {}, true) == std::pair(false, false));
  CHECK(runs_and_failed("Succeeded", 3, false) == std::pair(false, false));
  CHECK(runs_and_failed("Failed", {}, true) == std::pair(false, true));
  CHECK(runs_and_failed("Failed", 0, false) == std::pair(false, true));
}

TEST_CASE("a rank that has used up its tries ends the run if too few other ranks remain") {
  json job = plain_job();
  job["spec"]["completions"] = 3;
  job["spec"]["backoffLimitPerIndex"] = 1;
  job["status"]["startTime"] = "2026-01-03T11:00:00Z";
  std::vector<json> pods;
  const auto fail = [&](int rank, int before) {
    json pod = plain_pod();
    pod["spec"]["containers"].erase(1);
    pod["metadata"]["name"] = "p" + std::to_string(rank);
    pod["metadata"]["uid"] = "u" + std::to_string(rank);
    pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = std::to_string(rank);
    pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = std::to_string(before);
    pod["status"] =
        R"({"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated":
          {"exitCode": 3, "finishedAt": "2026-01-03T12:00:00Z"}}}]})"_json;
    pods.push_back(pod);
  };
  const auto decider = [&] {
    RunObjects objects;
    objects.jobs = {job};
    objects.pods = pods;
    return read_facts(objects).jobs.at(0);
  };
  fail(1, 0);
  CHECK_FALSE(decider().ending);
  CHECK(decider().failed_ranks.empty());
  pods.clear();
  fail(1, 1);
  CHECK(decider().ending);
  CHECK(decider().failing);
  CHECK(decider().end == JobFacts::End::none);
  CHECK(decider().end_reason == "FailedIndexes");
  CHECK(decider().end_message == "pod /p1 failed");
  CHECK(decider().failed_ranks == Indexes{1});
  // The run can continue without one rank, but not without two.
  job["spec"]["maxFailedIndexes"] = 1;
  CHECK_FALSE(decider().ending);
  CHECK(decider().failed_ranks == Indexes{1});
  fail(2, 1);
  CHECK(decider().ending);
  job["status"]["completedIndexes"] = "2";  // the status of the Job overrides the pod
  CHECK_FALSE(decider().ending);
  job["status"].erase("completedIndexes");
  job["status"]["startTime"] = "2026-01-03T12:00:01Z";  // all ends were before this start of the Job
  CHECK_FALSE(decider().ending);
  job["status"]["startTime"] = "2026-01-03T11:00:00Z";
  // While another container keeps a pod, the end of the pod's program is the end of the run.
  json& kept = pods[0];
  kept["spec"]["containers"].push_back({{"name", "side"}});
  kept["status"]["phase"] = "Running";
  CHECK_FALSE(decider().ending);
  CHECK(decider().end == JobFacts::End::failed);
  CHECK(decider().failing);
  CHECK(decider().ended_at == midday);
  CHECK(decider().end_message == "pod /p1 failed");
}

TEST_CASE("tags_of() ignores values of the list that are not text") {
  const auto tags = [](const json& value) {
    return tags_of({{"metadata", {{"annotations", {{"mlk.dev/tags", value}}}}}});
  };
  CHECK(tags(R"(["a", 3, "b=c", null])") == std::vector<std::string>{"a", "b=c"});
  CHECK(tags(R"({"a": "b"})").empty());
  CHECK(tags("").empty());
  CHECK(tags_of({}).empty());
}

}  // namespace
}  // namespace mlk
