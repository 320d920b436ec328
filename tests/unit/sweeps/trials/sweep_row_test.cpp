#include "sweeps/trials/sweep_row.h"

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "tests/unit/sweeps/driven_sweep.h"

TEST_SUITE_BEGIN("sweeps/trials/sweep_row");

using namespace mlk;
using nlohmann::json;
using test::DrivenSweep;

TEST_CASE("the row of a draining sweep has the phase `stopped` when no Job has a pod") {
  DrivenSweep sweep;
  sweep.start(0, "Running");
  sweep.job(0)["status"] = {{"active", 1}, {"startTime", "2026-11-23T10:00:00Z"}};
  CHECK(sweep.row().phase == Phase::running);
  CHECK(sweep.row().mode == "sweep");
  CHECK(sweep.row().steps == 2);
  CHECK(sweep.row().started.has_value());
  sweep.mark(annotations::draining);
  CHECK(sweep.row().phase == Phase::running);
  CHECK(sweep.row().why ==
        "no more trials are started; the sweep is stopped when its running trials have ended");
  sweep.end(0, true);
  CHECK(sweep.row().phase == Phase::stopped);
  CHECK(sweep.row().result["step"] == 1);
  CHECK(sweep.row().why == "");
}

TEST_CASE("the row of a driven sweep has a final phase when the driver has written this phase") {
  DrivenSweep sweep;
  CHECK(sweep.row().phase == Phase::incomplete);
  CHECK(sweep.row().why == "the command that starts the sweep was cut off: type it again");
  sweep.start(0);
  CHECK(sweep.row().phase == Phase::scheduling);
  sweep.end(0, false);
  CHECK(sweep.row().phase ==
        Phase::running);  // one of two trials has ended, and a driver will start the other trial
  CHECK(sweep.row().why == "1 of 2 trials failed; no trial runs: mlk status says why");
  sweep.mark(annotations::stopped);
  CHECK(sweep.row().phase == Phase::stopped);
  CHECK(sweep.row().why == "1 of 2 trials failed");
  sweep.mark(annotations::phase, "Failed");
  CHECK(sweep.row().phase == Phase::failed);
  CHECK(sweep.row().why == "1 of 2 trials failed; mlk status says why");
  sweep.mark(annotations::phase, "Succeeded");
  CHECK(sweep.row().phase == Phase::succeeded);
}

TEST_CASE("the row of a sweep counts the trials of its Jobs and the trials that are runs of their own") {
  DrivenSweep sweep;
  json job = {{"metadata",
               {{"name", "s-abcde-trials-0"},
                {"uid", "j"},
                {"labels", {{"mlk.dev/role", "trial"}, {"mlk.dev/run", "s-abcde"}}}}},
              {"spec", {{"completions", 3}, {"parallelism", 2}, {"backoffLimitPerIndex", 0}}},
              {"status", {{"active", 1}, {"completedIndexes", "0"}, {"failedIndexes", "1"}}}};
  sweep.objects.jobs.push_back(job);
  sweep.mark(annotations::roles, R"({"trial": 4})");
  sweep.start(1);
  sweep.end(1, true);
  CHECK(sweep.row().phase == Phase::running);
  CHECK(sweep.row().result["step"] == 3);
  CHECK(sweep.row().why == "1 of 4 trials failed");
  json& own = sweep.objects.jobs.front();
  own["status"] = {{"completedIndexes", "0,2"},
                   {"failedIndexes", "1"},
                   {"conditions", {{{"type", "Failed"}, {"status", "True"}, {"reason", "FailedIndexes"}}}}};
  CHECK(sweep.row().result["step"] == 4);
  // The end of a run's Job does not end the sweep: the driver writes how the sweep has ended.
  CHECK(sweep.row().phase == Phase::running);
  sweep.mark(annotations::phase, "Succeeded");
  CHECK(sweep.row().phase == Phase::succeeded);
}

TEST_CASE("the row of a sweep has the message of a Job that gave up") {
  DrivenSweep sweep;
  sweep.objects.jobs.push_back(
      {{"metadata",
        {{"name", "s-abcde-trials-0"},
         {"uid", "j"},
         {"labels", {{"mlk.dev/role", "trial"}, {"mlk.dev/run", "s-abcde"}}}}},
       {"spec", {{"completions", 2}, {"parallelism", 2}, {"backoffLimitPerIndex", 0}}},
       {"status",
        {{"conditions",
          {{{"type", "Failed"},
            {"status", "True"},
            {"reason", "DeadlineExceeded"},
            {"message", "too late"}}}}}}});
  CHECK(sweep.row().phase == Phase::failed);
  CHECK(sweep.row().why == "too late");
}
