// Tests which failures count as caused by the deletion of a Job, and which as earlier failures.
#include "cli/run/facts/deletion.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/labels.h"
#include "cli/run/read/watcher.h"
#include "cli/run/state/report.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/facts/deletion");

namespace mlk {
namespace {

using json = nlohmann::json;
using test::now;

const std::string second_before = "2026-01-03T11:59:49Z", second_of_deletion = "2026-01-03T11:59:50Z",
                  second_after = "2026-01-03T11:59:51Z";

// A run with one try for each rank, whose workers' Job somebody deletes in the foreground.
struct Deleted : test::Run {
  Deleted() {
    objects.owner["metadata"]["annotations"][annotations::created] = "r-worker";
    job()["spec"]["backoffLimitPerIndex"] = 0;
    job()["metadata"]["ownerReferences"] = {{{"uid", "owner-uid"}}};
    go(job());
    for (int rank = 0; rank < 3; ++rank) ask_to_end(rank);
  }
  static void go(json& object) {
    object["metadata"]["deletionTimestamp"] = second_of_deletion;
    object["metadata"]["deletionGracePeriodSeconds"] = 0;
  }
  void ask_to_end(int rank) {
    pod(rank)["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:20Z";
    pod(rank)["metadata"]["deletionGracePeriodSeconds"] = 30;
  }
  void says(const std::string& type, const std::string& time, const std::string& reason = "FailedIndexes") {
    condition(type, reason);
    job()["status"]["conditions"].back()["lastTransitionTime"] = time;
  }
  // The facts that a watcher of the Job knows when the Job is gone.
  RunStatus when_gone() const {
    RunObjects rest = objects;
    rest.jobs.erase(rest.jobs.begin());
    rest.owner["metadata"]["annotations"][annotations::gone] = "r-worker";
    return observe(with_ended_jobs(rest, {{"r-worker", objects.jobs.front()}}, now), now);
  }
};

}  // namespace

TEST_CASE("a failure in the same second as the Job's deletion, or later, counts as caused by the deletion") {
  struct Row {
    std::optional<Time> failed;
    std::string deleted;
    bool with_it;
  };
  const Row rows[] = {
      {parse_time(second_before), "", false},  // nobody has deleted the Job
      {{}, "", false},
      {parse_time(second_before), second_of_deletion, false},
      {parse_time("2026-01-03T11:59:49.9Z"), second_of_deletion, false},
      {parse_time(second_of_deletion), second_of_deletion, true},  // in one second the deletion comes first
      {parse_time(second_of_deletion), "2026-01-03T11:59:50.9Z", true},
      {parse_time(second_after), second_of_deletion, true},
      {{}, second_of_deletion, true},  // a failure without a time
  };
  for (const Row& row : rows) {
    json job = json::object();
    if (!row.deleted.empty()) job["metadata"]["deletionTimestamp"] = row.deleted;
    CHECK(came_with_deletion(row.failed, job) == row.with_it);
  }
}

TEST_CASE("a failure in the same second as the deletion counts as earlier if ttlSecondsAfterFinished is 0") {
  struct Row {
    int time_to_live;
    std::string type, said, failed;
    bool with_it;
  };
  const Row rows[] = {
      {0, "Failed", second_of_deletion, second_of_deletion, false},
      {0, "Failed", second_of_deletion, second_before, false},
      {0, "Failed", second_of_deletion, second_after, true},
      {0, "Failed", second_before, second_of_deletion, true},
      {0, "Failed", second_after, second_of_deletion, true},
      {0, "FailureTarget", second_of_deletion, second_of_deletion, true},
      {0, "Failed", "", second_of_deletion, true},
      {1, "Failed", second_of_deletion, second_of_deletion, true},
      {-1, "Failed", second_of_deletion, second_of_deletion, true},  // no time to live: the Job stays
  };
  for (const Row& row : rows) {
    json job = {{"metadata", {{"deletionTimestamp", second_of_deletion}}}, {"spec", json::object()}};
    if (row.time_to_live >= 0) job["spec"]["ttlSecondsAfterFinished"] = row.time_to_live;
    job["status"]["conditions"] = {{{"type", row.type}, {"status", "True"}}};
    if (!row.said.empty()) job["status"]["conditions"][0]["lastTransitionTime"] = row.said;
    CHECK(came_with_deletion(parse_time(row.failed), job) == row.with_it);
  }
}

TEST_CASE("a run keeps the program's exit code if `ttlSecondsAfterFinished: 0` deletes its Job at once") {
  Deleted run;
  run.job()["spec"]["ttlSecondsAfterFinished"] = 0;
  for (int rank = 0; rank < 3; ++rank) run.fail(run.pod(rank), 3, second_of_deletion);
  run.says("Failed", second_of_deletion);
  CHECK(run.phase() == "Failed");
  REQUIRE(run.observed().first_failure);
  CHECK(run.observed().first_failure->exit_code == 3);
  CHECK(exit_code(run.when_gone()) == ExitCode::run_failed);
}

TEST_CASE("the deletion of a pod was requested one grace period before its deletionTimestamp") {
  CHECK_FALSE(deletion_of(json::object()));
  CHECK(deletion_of({{"metadata", {{"deletionTimestamp", second_of_deletion}}}}) ==
        parse_time(second_of_deletion));
  CHECK(deletion_of({{"metadata",
                      {{"deletionTimestamp", "2026-01-03T12:00:20Z"},
                       {"deletionGracePeriodSeconds", 30}}}}) == parse_time(second_of_deletion));
}

TEST_CASE("a run does not count as failed if its Job fails only after the deletion of this Job") {
  for (const std::string& time : {second_of_deletion, second_after}) {
    for (const int code : {1, 75, 143, 66}) {
      Deleted run;
      for (int rank = 0; rank < 3; ++rank) run.fail(run.pod(rank), code, time);
      run.job()["status"]["failedIndexes"] = "0-2";
      run.says("FailureTarget", time);
      run.says("Failed", time);
      CHECK(run.phase() != "Failed");
      CHECK(run.why() == "it is being deleted");
      CHECK_FALSE(is_over(run.observed()));
      CHECK_FALSE(run.observed().first_failure);
      CHECK_FALSE(run.observed().last_failure);
      CHECK(run.observed().ranks.at(0).reason == "its Job was deleted");
      CHECK(run.when_gone().absence == Absence::gone);
      CHECK(exit_code(run.when_gone()) == ExitCode::failure);
    }
  }
}

TEST_CASE("a run with a deleted Job has not failed if a rank failed because of lost peers") {
  Deleted run;
  run.pod(1)["metadata"].erase("deletionTimestamp");
  run.fail(run.pod(1), 75, second_after);
  run.says("Failed", second_after);
  CHECK(run.phase() != "Failed");
  CHECK_FALSE(run.observed().first_failure);
  CHECK(endings_to_read(run.objects).empty());
}

TEST_CASE("a run has failed if its Job failed before the deletion") {
  Deleted run;
  run.fail(run.pod(1), 3, second_before);
  SUBCASE("the Job had reported Failed") { run.says("Failed", second_before); }
  SUBCASE("the Job had only reported FailureTarget") {
    run.says("FailureTarget", second_before);
    run.says("Failed", second_after);
    for (const int rank : {0, 2}) run.fail(run.pod(rank), 143, second_after);
  }
  CHECK(run.phase() == "Failed");
  CHECK(run.why() == "worker/1: exit code 3");
  CHECK(run.observed().first_failure->exit_code == 3);
  CHECK(run.when_gone().phase == Phase::failed);
}

TEST_CASE("a program that failed before the deletion of its Job counts as failed even if its pod still ran") {
  Deleted run;
  const auto end = [&](const std::string& time) {
    run.fail(run.pod(1), 3, time);
    run.pod(1)["status"]["phase"] = "Running";
    run.pod(1)["spec"]["containers"].push_back({{"name", "side"}, {"image", "side:1"}});
  };
  end(second_before);
  CHECK(run.phase() == "Failed");
  end(second_after);
  CHECK(run.phase() != "Failed");
}

TEST_CASE("a run with a deleted Job has succeeded if the Job is Complete, or if all its ranks ended well") {
  Deleted run;
  run.says("Complete", second_after, "CompletionsReached");
  CHECK(run.phase() == "Succeeded");
  Deleted other;
  other.job()["status"]["completedIndexes"] = "0-2";
  other.says("Failed", second_after);
  CHECK(other.phase() == "Succeeded");
}

TEST_CASE("a run has failed if its time limit passed before the deletion of its Job") {
  for (const auto& [time, failed] : {std::pair{second_before, true}, {second_after, false}}) {
    Deleted run;
    run.says("Failed", time, "DeadlineExceeded");
    CHECK((run.phase() == "Failed") == failed);
  }
}

TEST_CASE("the exit code of a rank is the cause of the failure if the Job was not deleted") {
  Deleted run;
  run.job()["metadata"].erase("deletionTimestamp");
  for (int rank = 0; rank < 3; ++rank) run.pod(rank)["metadata"].erase("deletionTimestamp");
  run.fail(run.pod(1), 1, second_after);
  run.says("Failed", second_after);
  CHECK(run.phase() == "Failed");
  CHECK(run.why() == "worker/1: exit code 1");
}

TEST_CASE("a run shows a failure that came before the deletion of its Job, but no later failure") {
  Deleted run;
  run.job()["spec"]["backoffLimitPerIndex"] = 3;
  run.fail(run.pod(0), 3, second_before);
  run.fail(run.pod(1), 1, second_after);
  const RunStatus seen = run.observed();
  CHECK(seen.phase != Phase::failed);
  REQUIRE(seen.last_failure);
  CHECK(seen.last_failure->exit_code == 3);
}

}  // namespace mlk
