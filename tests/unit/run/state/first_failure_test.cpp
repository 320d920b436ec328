// Tests which failure counts as the cause of a failed run, and which exit code follows from this cause.
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/state/status.h"
#include "tests/unit/run/fixture.h"

TEST_SUITE_BEGIN("run/state/first_failure");

namespace mlk {
namespace {

using test::Fixture;
using test::load;

TEST_CASE("a pod is not the first failure if the Job controller ended it after an earlier failure") {
  Fixture fixture = load("ending");
  const RunStatus status = fixture.observed();
  REQUIRE(status.first_failure);
  CHECK(status.first_failure->rank == 2);
  CHECK(status.first_failure->exit_code == 66);
  CHECK(status.first_failure->message == "loss is nan at step 7");
  CHECK_FALSE(status.first_failure->disruption);
  REQUIRE(status.last_failure);
  CHECK(status.last_failure->rank == 2);
}

TEST_CASE("a rank is not the first failure if it ended because it lost a peer") {
  // Rank 1 ended with exit code 3. Rank 0 gets an end with exit code 75 (server lost), and has no tries left
  // either.
  Fixture fixture = load("failed_exit_code");
  nlohmann::json follower;
  for (const auto& pod : fixture.objects.pods) {
    if (pod["metadata"]["labels"]["mlk.dev/role"] == "worker") follower = pod;
  }
  follower["metadata"]["name"] = "bad-aaaaa-worker-0-zzzzz";
  follower["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = "0";
  auto& terminated = follower["status"]["containerStatuses"][0]["state"]["terminated"];
  terminated["exitCode"] = 75;
  terminated["finishedAt"] = "2026-11-21T08:00:00Z";
  fixture.objects.pods.push_back(follower);
  for (auto& job : fixture.objects.jobs) {
    if (job["metadata"]["name"] == "bad-aaaaa-worker") job["status"]["failedIndexes"] = "0,1";
  }
  const RunStatus status = fixture.observed();
  REQUIRE(status.first_failure);
  CHECK(status.first_failure->rank == 1);
  CHECK(status.first_failure->exit_code == 3);
}

TEST_CASE("exit_code() distinguishes success, failure, disruption, stop and a run that cannot start") {
  CHECK(exit_code(load("succeeded").observed()) == ExitCode::ok);
  CHECK(exit_code(load("failed_exit_code").observed()) == ExitCode::run_failed);
  CHECK(exit_code(load("stopped").observed()) == ExitCode::stopped);
  CHECK(exit_code(load("invalid_image_name").observed()) == ExitCode::cannot_start);
  Fixture fixture = load("failed_exit_code");
  for (auto& pod : fixture.objects.pods) {
    pod["status"]["conditions"].push_back(
        {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "PreemptionByScheduler"}});
  }
  CHECK(exit_code(fixture.observed()) == ExitCode::disrupted);
}

TEST_CASE("an early disruption is not the cause of a failure if the run recovered from it") {
  // Rank 1 was evicted first, then failed for good by itself.
  Fixture fixture = load("failed_exit_code");
  bool first = true;
  for (auto& pod : fixture.objects.pods) {
    if (!pod["status"]["containerStatuses"][0]["state"].contains("terminated") ||
        !std::exchange(first, false))
      continue;
    pod["status"]["conditions"].push_back(
        {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}});
  }
  CHECK(exit_code(fixture.observed()) == ExitCode::run_failed);

  fixture = load("evicted");
  fixture.objects.jobs[0]["status"]["conditions"] = {
      {{"type", "Failed"}, {"status", "True"}, {"reason", "DeadlineExceeded"}}};
  const RunStatus status = fixture.observed();
  CHECK(status.phase == Phase::failed);
  CHECK_FALSE(status.first_failure);
  CHECK(exit_code(status) == ExitCode::run_failed);
}

TEST_CASE("a run's failure counts as a disruption if every try of the failed rank ended by a disruption") {
  // Every try of rank 1 was evicted. Rank 0 failed once by itself, which did not end the run.
  Fixture fixture = load("failed_exit_code");
  for (auto& pod : fixture.objects.pods) {
    if (pod["metadata"]["labels"]["mlk.dev/role"] != "worker") continue;
    pod["status"]["conditions"].push_back(
        {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}});
  }
  nlohmann::json other = fixture.objects.pods.back();
  for (const auto& pod : fixture.objects.pods) {
    if (pod["metadata"]["labels"]["mlk.dev/role"] == "worker") other = pod;
  }
  other["metadata"]["name"] = "bad-aaaaa-worker-0-zzzzz";
  other["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = "0";
  other["status"]["conditions"] = nlohmann::json::array();
  auto& terminated = other["status"]["containerStatuses"][0]["state"]["terminated"];
  terminated["exitCode"] = 1;
  terminated["finishedAt"] = "2026-11-21T08:00:00Z";
  fixture.objects.pods.push_back(other);
  const RunStatus status = fixture.observed();
  REQUIRE(status.first_failure);
  CHECK(status.first_failure->rank == 1);
  CHECK(status.first_failure->disruption);
  CHECK(exit_code(status) == ExitCode::disrupted);
}

}  // namespace
}  // namespace mlk
