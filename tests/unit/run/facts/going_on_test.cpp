// Tests which pods count as live and which Jobs would continue by themselves.
#include "cli/run/facts/going_on.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/run_objects.h"
#include "tests/unit/run/plain_pods.h"

TEST_SUITE_BEGIN("run/facts/going_on");

namespace mlk {
namespace {

using json = nlohmann::json;
using told::midday;
using told::plain_job;
using told::plain_pod;

TEST_CASE("a pod counts as live if it has not ended and its node is not lost") {
  const auto ask = [](const json& patch) {
    json pod = plain_pod();
    pod.merge_patch(patch);
    RunObjects objects;
    objects.pods = {pod};
    return std::pair(has_live_pods(objects, midday), has_running_programs(objects, midday));
  };
  CHECK(ask(json::object()) == std::pair(true, true));
  CHECK(ask({{"status", {{"phase", "Pending"}}}}) == std::pair(true, false));
  for (const char* phase : {"Succeeded", "Failed", "Unknown"})
    CHECK(ask({{"status", {{"phase", phase}}}}) == std::pair(false, false));
  CHECK(ask({{"status", {{"reason", "NodeLost"}}}}) == std::pair(false, false));
  CHECK_FALSE(has_live_pods({}, midday));
}

TEST_CASE(
    "jobs_going_on() leaves out Jobs that are suspended, deleted or ending, or whose ranks have all ended") {
  const auto goes_on = [](const json& job_patch, const json& pod_patch = json::object()) {
    json job = plain_job(), pod = plain_pod();
    job.merge_patch(job_patch);
    pod.merge_patch(pod_patch);
    RunObjects objects;
    objects.jobs = {job};
    objects.pods = {pod};
    return jobs_going_on(objects) == std::vector<std::string>{"r-worker"};
  };
  CHECK(goes_on(json::object()));
  CHECK_FALSE(goes_on({{"spec", {{"suspend", true}}}}));
  CHECK_FALSE(goes_on({{"metadata", {{"deletionTimestamp", "2026-01-03T12:00:00Z"}}}}));
  for (const char* type : {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"})
    CHECK_FALSE(goes_on({{"status", {{"conditions", {{{"type", type}, {"status", "True"}}}}}}}));
  CHECK(goes_on({{"status", {{"completedIndexes", "0-1"}, {"failedIndexes", "3"}}}}));
  CHECK_FALSE(goes_on({{"status", {{"completedIndexes", "0-2"}, {"failedIndexes", "3"}}}}));
  const json ended_well = {{"status", {{"phase", "Succeeded"}}}};
  CHECK_FALSE(goes_on({{"status", {{"completedIndexes", "0-1"}, {"failedIndexes", "3"}}}}, ended_well));
  CHECK(goes_on({{"status", {{"completedIndexes", "0-1"}, {"failedIndexes", "3"}}}},
                {{"status", {{"phase", "Failed"}}}}));
}

TEST_CASE("lacks_ends_of_pods() is true if a Job has ended but its pods do not show the ends of its ranks") {
  const auto lacks = [](const json& status, const std::vector<json>& pod_patches) {
    RunObjects objects;
    objects.jobs = {plain_job()};
    objects.jobs[0]["status"] = status;
    for (const json& patch : pod_patches) {
      objects.pods.push_back(plain_pod());
      objects.pods.back().merge_patch(patch);
    }
    return lacks_ends_of_pods(objects);
  };
  const json complete = {{{"type", "Complete"}, {"status", "True"}}};
  const json failed = {{{"type", "Failed"}, {"status", "True"}}};
  const json succeeded = {{"status", {{"phase", "Succeeded"}}}}, broken = {{"status", {{"phase", "Failed"}}}};
  const json program_ended = {
      {"status",
       {{"containerStatuses", {{{"name", "main"}, {"state", {{"terminated", {{"exitCode", 0}}}}}}}}}}};
  const json rank_1 = {{"metadata", {{"annotations", {{"batch.kubernetes.io/job-completion-index", "1"}}}}}};
  json succeeded_1 = succeeded;
  succeeded_1.merge_patch(rank_1);
  CHECK_FALSE(lacks({{"completedIndexes", "2"}}, {}));  // the Job goes on
  CHECK(lacks({{"completedIndexes", "2"}, {"conditions", complete}}, {}));
  CHECK(
      lacks({{"completedIndexes", "2"}, {"conditions", complete}}, {json::object()}));  // its pod still runs
  CHECK_FALSE(lacks({{"completedIndexes", "2"}, {"conditions", complete}}, {succeeded}));
  CHECK_FALSE(lacks({{"completedIndexes", "2"}, {"conditions", complete}}, {program_ended}));
  CHECK(lacks({{"completedIndexes", "1-2"}, {"conditions", complete}}, {succeeded}));
  CHECK_FALSE(lacks({{"completedIndexes", "1-2"}, {"conditions", complete}}, {succeeded, succeeded_1}));
  CHECK(lacks({{"failedIndexes", "1"}, {"conditions", failed}}, {broken}));
  CHECK(lacks({{"conditions", failed}}, {}));  // the Job names no rank
  CHECK_FALSE(lacks({{"conditions", failed}}, {broken}));
}

}  // namespace
}  // namespace mlk
