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
    "jobs_going_on() leaves out Jobs that are suspended, deleted or ending, or whose ranks are all over") {
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

}  // namespace
}  // namespace mlk
