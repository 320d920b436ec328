// Tests the output of a run's status: exit codes, names, JSON, and the record that mlk writes and reads back.
#include <doctest/doctest.h>

#include "cli/run/state/record.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/state/told");

namespace mlk {
namespace {

using json = nlohmann::json;
using test::failure;
using test::now;
using test::Run;

TEST_CASE("each phase has its exit code") {
  const auto code = [](Phase phase, bool cannot_start = false, std::optional<bool> disruption = {}) {
    RunStatus status;
    status.phase = phase;
    status.cannot_start = cannot_start;
    if (disruption) {
      status.first_failure = failure(0);
      status.first_failure->disruption = *disruption;
    }
    return exit_code(status);
  };
  CHECK(code(Phase::succeeded) == ExitCode::ok);
  CHECK(code(Phase::stopped) == ExitCode::stopped);
  CHECK(code(Phase::failed) == ExitCode::run_failed);
  CHECK(code(Phase::failed, false, false) == ExitCode::run_failed);
  CHECK(code(Phase::failed, false, true) == ExitCode::disrupted);
  CHECK(code(Phase::running) == ExitCode::failure);
  CHECK(code(Phase::starting, true) == ExitCode::cannot_start);
  CHECK(code(Phase::succeeded, true) == ExitCode::ok);
}

TEST_CASE("each phase has a name, which parse_phase() reads back") {
  for (int number = 0; number <= static_cast<int>(Phase::failed); ++number) {
    const auto phase = static_cast<Phase>(number);
    CHECK(parse_phase(to_string(phase)) == phase);
    CHECK(is_final(phase) == (phase == Phase::succeeded || phase == Phase::failed));
  }
  CHECK(to_string(Phase::queued) == "Queued");
  CHECK_FALSE(parse_phase("Done"));
  CHECK_FALSE(parse_phase(""));
}

TEST_CASE("from_record() reads back every value that to_record() has written") {
  RunStatus status = Run().observed();
  status.phase = Phase::failed;
  status.why = "worker/1: exit code 3";
  status.ended = now;
  status.restarts = 4;
  status.steps = 300;
  status.result = {{"schema", 1}, {"step", 40}};
  status.result_at = now;
  status.last_checkpoint = "step 30";
  Failure one = failure(1, "gone");
  one.exit_code = 137;
  one.signal = 9;
  one.reason = "killed";
  one.disruption = true;
  one.attempt = 2;
  one.attempts = 4;
  one.at = now;
  status.first_failure = one;
  one.rank = 2;
  status.last_failure = one;
  status.ranks.at(1).restarts = 3;
  const json record = to_record(status);
  const std::optional<RunStatus> read = from_record(record);
  REQUIRE(read);
  CHECK(to_record(*read) == record);
  CHECK(read->phase == Phase::failed);
  CHECK(read->first_failure->rank == 1);
  CHECK(read->first_failure->signal == 9);
  CHECK(read->last_failure->rank == 2);
  CHECK(read->ranks.at(1).restarts == 3);
  CHECK(record["first_failure"]["next"].is_null());
  CHECK_FALSE(from_record({{"schema", 1}}));
  for (const json& no_failure : {json("x"), json::array({1}), json(3)}) {
    json other = record;
    other["first_failure"] = no_failure;
    REQUIRE(from_record(other));
    CHECK_FALSE(from_record(other)->first_failure);
    CHECK(from_record(other)->last_failure);
  }
}

TEST_CASE("the JSON of a status has every key even if values are unknown") {
  Run run;
  run.fail(run.pod(1), 3);
  run.objects.jobs.pop_back();
  run.objects.pods.pop_back();
  run.objects.owner["metadata"]["annotations"]["mlk.dev/roles"] = R"({"worker":3})";
  json out = to_json(run.observed());
  const json failure = {{"role", "worker"},
                        {"rank", 1},
                        {"exit_code", 3},
                        {"signal", 0},
                        {"reason", "exit code 3"},
                        {"message", ""},
                        {"container", ""},
                        {"disruption", false},
                        {"attempt", 1},
                        {"attempts", 4},
                        {"at", "2026-01-03T11:59:55Z"},
                        {"next", "2026-01-03T12:00:05Z"}};
  CHECK(out["ranks"].size() == 3);
  CHECK(out["ranks"][1] == json{{"role", "worker"},
                                {"rank", 1},
                                {"pod", "r-worker-1-1"},
                                {"node", "n1"},
                                {"state", "Failed"},
                                {"restarts", 0},
                                {"reason", "exit code 3 (try 1 of 4, next in 5s)"},
                                {"since", "2026-01-03T11:59:55Z"}});
  out.erase("ranks");
  const json known = {{"run", "r"},
                      {"name", "exp"},
                      {"mode", "ps"},
                      {"phase", "Restarting"},
                      {"why", "worker/1: exit code 3 (try 1 of 4, next in 5s)"},
                      {"created", "2026-01-03T11:00:00Z"},
                      {"started", "2026-01-03T11:00:02Z"},
                      {"ended", nullptr},
                      {"restarts", 0},
                      {"steps", 0},
                      {"result", nullptr},
                      {"result_at", nullptr},
                      {"first_failure", failure},
                      {"last_failure", failure},
                      {"last_checkpoint", ""},
                      {"checkpoint", nullptr},
                      {"outputs", nullptr},
                      {"cannot_start", false},
                      {"final", false},
                      {"experiment", nullptr},
                      {"owner", nullptr},
                      {"tags", json::array()},
                      {"note", ""},
                      {"commit", ""}};
  CHECK_MESSAGE(out == known, json::diff(known, out).dump(),
                ": scripts rely on these keys; a new one belongs into this list and man/mlk-status.1");
}

TEST_CASE("the summary of a run is the record without ranks and curve") {
  RunStatus status = Run().observed();
  status.phase = Phase::failed;
  status.result = {{"schema", 1}, {"step", 40}, {"curve", {1, 2}}};
  status.first_failure = failure(0, std::string(400, 'a') + "z");
  const json patch = record_patch(status);
  const json summary = json::parse(patch["metadata"]["annotations"][annotations::summary].get<std::string>());
  CHECK(patch["metadata"]["annotations"][annotations::phase] == "Failed");
  CHECK_FALSE(summary.contains("ranks"));
  CHECK_FALSE(summary["result"].contains("curve"));
  CHECK(summary["result"]["step"] == 40);
  CHECK(summary["first_failure"]["message"] == std::string(299, 'a') + "z");
  const json record = json::parse(patch["data"]["record"].get<std::string>());
  CHECK(record["result"].contains("curve"));
  CHECK(record["first_failure"]["message"].get<std::string>().size() == 401);
  const json removal = record_removal_patch();
  for (const char* key : {annotations::phase, annotations::summary})
    CHECK(removal["metadata"]["annotations"].at(key).is_null());
  CHECK(removal["data"].at("record").is_null());
}

TEST_CASE("the record of a stopped run supplies facts that the objects no longer show") {
  Run run;
  run.stop();
  RunStatus before;
  before.phase = Phase::stopped;
  before.started = parse_time("2026-01-03T10:00:00Z");
  before.restarts = 5;
  before.first_failure = failure(2);
  before.last_failure = failure(1);
  before.result = {{"schema", 1}, {"step", 10}, {"checkpoint", 8}};
  before.result_at = parse_time("2026-01-03T11:00:00Z");
  run.objects.owner.merge_patch(record_patch(before));
  const RunStatus status = run.observed();
  CHECK(status.started == before.started);
  CHECK(status.restarts == 5);
  CHECK(status.first_failure->rank == 2);
  CHECK(status.last_failure->rank == 1);
  CHECK(status.result["step"] == 10);
  CHECK(status.last_checkpoint == "step 8");
  run.fail(run.pod(0), 3);
  CHECK(run.observed().first_failure->rank == 2);
  CHECK(run.observed().last_failure->rank == 0);
}

TEST_CASE("an ended run still shows the place of its newest checkpoint") {
  Run run;
  RunStatus ended;
  ended.phase = Phase::succeeded;
  ended.result = {{"schema", 1}, {"step", 10}, {"checkpoint", 8}};
  run.objects.owner.merge_patch(record_patch(ended));
  CHECK_FALSE(run.observed().checkpoint);
  run.objects.owner["data"]["experiment"] =
      R"({"train":{"steps":10},"checkpoint":{"volume":{"pvc":"claim"}}})";
  REQUIRE(run.observed().checkpoint);
  CHECK(run.observed().checkpoint->step == 8);
  CHECK(run.observed().steps == 10);
  CHECK(run.observed().experiment["train"]["steps"] == 10);
}

}  // namespace
}  // namespace mlk
