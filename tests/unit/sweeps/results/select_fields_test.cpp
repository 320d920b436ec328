// Tests each field of trials and of runs in --where, each state, and each notation of a duration.
#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "sweeps/results/select.h"

TEST_SUITE_BEGIN("sweeps/results/select_fields");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr Time start_of_time{};

Trial field_trial() {
  Trial trial;
  trial.number = 5;
  trial.state = TrialState::stopped;
  trial.objective = 0.25;
  trial.step = 70;
  trial.tries = 2;
  trial.failure = "exit code 3";
  trial.started = start_of_time + std::chrono::seconds(10);
  trial.ended = start_of_time + std::chrono::seconds(100);
  trial.point = {{"train.optimizer.lr", 0.5}, {"batch", 16}};
  trial.metrics = {{"acc", 0.75}};
  return trial;
}

RunStatus field_run() {
  RunStatus run;
  run.run = "digits-abcde";
  run.name = "digits";
  run.mode = "ps";
  run.phase = Phase::restarting;
  run.restarts = 3;
  run.why = "worker 1 was lost";
  run.created = start_of_time;
  run.started = start_of_time + std::chrono::seconds(30);
  run.ended = start_of_time + std::chrono::minutes(10);
  run.tags = {"team=vision", "best", "empty="};
  run.result = {{"step", 70}, {"metrics", {{"acc", 0.75}}}};
  run.experiment = {{"name", "digits"}, {"run", "python3 x.py"}, {"train", {{"steps", 9}}}};
  return run;
}

bool trial_fits(const std::string& expression) { return select({field_trial()}, {}, expression).size() == 1; }

bool run_fits(const std::string& expression) {
  return select_runs({field_run()}, start_of_time + std::chrono::hours(2), expression).size() == 1;
}

template <typename Fits>
void check_fields(const Fits& fits, const std::vector<std::string>& hold,
                  const std::vector<std::string>& fail) {
  for (const std::string& each : hold) CHECK_MESSAGE(fits(each), each);
  for (const std::string& each : fail) CHECK_MESSAGE(!fits(each), each);
}

}  // namespace

TEST_CASE("an expression can name every field of a trial") {
  check_fields(trial_fits,
               {"trial == 5", "state == stopped", "objective == 0.25", "step == 70", "tries == 2",
                "failure == 'exit code 3'", "duration == 90", "acc == 0.75", "lr == 0.5", "batch == 16",
                "train.optimizer.lr == 0.5", "optimizer.lr == 0.5", "parameters.batch == 16"},
               {"trial != 5", "state == succeeded", "objective == null", "step == 2", "tries == 70",
                "failure == null", "duration == null"});
  const auto empty_fits = [](const std::string& expression) {
    return select({Trial{}}, {}, expression).size() == 1;
  };
  check_fields(empty_fits,
               {"objective == null", "failure == null", "duration == null", "state == waiting", "step == 0"},
               {"objective != null", "duration < 1", "duration >= 0", "failure != null"});
  Trial started = field_trial();
  started.ended.reset();
  CHECK(select({started}, {}, "duration == null").size() == 1);
  started = field_trial();
  started.started.reset();
  CHECK(select({started}, {}, "duration == null").size() == 1);
}

TEST_CASE("in an expression for trials, a metric or a parameter wins over a field of the same name") {
  Trial trial = field_trial();
  trial.metrics["step"] = 7;
  trial.point["tries"] = 9;
  CHECK(select({trial}, {}, "step == 7").size() == 1);
  CHECK(select({trial}, {}, "tries == 9").size() == 1);
  CHECK(select({trial}, {}, "tries == 2").empty());
}

TEST_CASE("an expression may name a parameter of the space that no trial has") {
  const Space space{{{"train.model.depth", Parameter::Kind::choice, {1}, 0, 0, {}}}, {}};
  CHECK(select({field_trial()}, space, "depth == 1").empty());
  CHECK(select({}, space, "depth == 1 or train.model.depth == 2 or state == failed").empty());
  CHECK_THROWS_AS(select({field_trial()}, {}, "depth == 1"), Error);
}

TEST_CASE("an expression can name every field of a run, and a field wins over a value of the experiment") {
  check_fields(
      run_fits,
      {"run == digits-abcde", "name == digits", "mode == ps", "phase == Restarting", "state == restarting",
       "step == 70", "restarts == 3", "why == 'worker 1 was lost'", "age == 7200", "age == 2h",
       "duration == 570", "acc == 0.75", "train.steps == 9", "tags == ['team=vision', best, 'empty=']",
       "tags.team == vision", "tags.best == true", "tags.empty == ''"},
      {"run == 'python3 x.py'", "why == null", "duration == null", "age > 2h", "tags.team == true",
       "phase == running", "restarts == 0"});
  const auto empty_fits = [](const std::string& expression) {
    return select_runs({RunStatus{}}, start_of_time, expression).size() == 1;
  };
  check_fields(empty_fits, {"why == null", "age == null", "duration == null", "step == null", "tags == []"},
               {"why != null", "age > 0", "step == 0"});
  RunStatus going = field_run();
  going.ended.reset();
  CHECK(select_runs({going}, start_of_time, "duration == null").size() == 1);
}

TEST_CASE("an expression can name every state of a trial and every phase of a run") {
  for (const TrialState state : {TrialState::waiting, TrialState::running, TrialState::succeeded,
                                 TrialState::failed, TrialState::stopped}) {
    Trial trial;
    trial.state = state;
    CHECK(select({trial}, {}, "state == " + std::string(to_string(state))).size() == 1);
  }
  for (const Phase phase : all_phases) {
    RunStatus run;
    run.phase = phase;
    const std::string text(to_string(phase));
    CHECK(select_runs({run}, start_of_time, "phase == " + text + " and state == " + text).size() == 1);
  }
  CHECK_THROWS_WITH_AS(trial_fits("state == queued"), doctest::Contains("there is no state 'queued'"), Error);
  CHECK_THROWS_WITH_AS(run_fits("phase == waiting"), doctest::Contains("there is no phase 'waiting'"), Error);
  CHECK_THROWS_WITH_AS(run_fits("state in [running, done]"), doctest::Contains("there is no state 'done'"),
                       Error);
}

TEST_CASE("a duration is written in seconds or with a unit, also in a list") {
  check_fields(
      trial_fits,
      {"duration == 90s", "duration < 2m", "duration >= 1m", "duration in [1m, 90s]", "not duration > '1h'",
       "duration not in [1m]", "step > 5 and (duration == 90s or tries == 9)"},
      {"duration > 90s", "duration in [1m, 2m]"});
  for (const char* wrong :
       {"duration > soon", "duration in [1m, soon]", "tries == 2 or not duration == soon"})
    CHECK_THROWS_WITH_AS(trial_fits(wrong),
                         doctest::Contains("'soon' is no duration, such as 90s, 10m or 2h"), Error);
  CHECK_THROWS_WITH_AS(trial_fits("failure == soon and duration < x1"),
                       doctest::Contains("'x1' is no duration"), Error);
}

TEST_CASE("a comparison with < or > is refused if all values are texts that are not numbers") {
  const auto runs_with = [](const std::vector<json>& values) {
    std::vector<RunStatus> runs;
    for (const json& value : values) {
      RunStatus& run = runs.emplace_back();
      run.run = "r" + std::to_string(runs.size());
      if (!value.is_null()) run.experiment["env"]["SIZE"] = value;
    }
    return runs;
  };
  const auto selected = [](const std::vector<RunStatus>& runs, const std::string& expression) {
    return select_runs(runs, start_of_time, expression).size();
  };
  const auto texts = runs_with({"auto", nullptr, "large"});
  for (const char* order : {"SIZE < 1", "SIZE <= 1", "SIZE > 1", "SIZE >= 1"})
    CHECK_THROWS_WITH_AS(selected(texts, order),
                         doctest::Contains("no value of env.SIZE is a number; one is 'large'"), Error);
  CHECK(selected(texts, "SIZE == 1") == 0);
  CHECK(selected(texts, "SIZE != 1") == 2);
  CHECK(selected(texts, "SIZE > 'b'") == 1);
  CHECK(selected(runs_with({"auto", "3", "large"}), "SIZE > 1") == 1);
  CHECK(selected(runs_with({"auto", 3}), "SIZE > 1") == 1);
}

TEST_CASE("an expression needs no prefix for a metric or a field if the name is unambiguous") {
  Trial trial = field_trial();
  trial.metrics = {{"r", 1}, {"state", "x"}};
  CHECK(select({trial}, {}, "r == 1").size() == 1);
  RunStatus run = field_run();
  run.result["metrics"]["name"] = 4;
  CHECK(select_runs({run}, start_of_time, "name == digits").size() == 1);
}
