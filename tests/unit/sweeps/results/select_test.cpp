#include "sweeps/results/select.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/results/select");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

std::vector<Trial> some_trials() {
  std::vector<Trial> trials(3);
  for (int i = 0; i < 3; ++i) {
    Trial& trial = trials[static_cast<std::size_t>(i)];
    trial.number = i;
    trial.point = {{"train.optimizer.lr", 0.1 * (i + 1)}, {"train.model.hidden", json::array({64 * i})}};
    trial.state = i == 2 ? TrialState::failed : TrialState::succeeded;
    trial.metrics = {{"accuracy", 0.5 + 0.1 * i}};
    trial.objective = 0.5 + 0.1 * i;
    trial.step = 100 * i;
  }
  trials[2].failure = "exit code 3";
  trials[1].started = Time{};
  trials[1].ended = Time{} + std::chrono::seconds(30);
  return trials;
}

std::string numbers_of(const std::string& expression) {
  const Space space{{{"train.optimizer.lr", Parameter::Kind::choice, {1}, 0, 0, {}},
                     {"train.model.hidden", Parameter::Kind::choice, {1}, 0, 0, {}}},
                    {}};
  std::string numbers;
  for (const Trial& trial : select(some_trials(), space, expression)) numbers += std::to_string(trial.number);
  return numbers;
}

}  // namespace

TEST_CASE("an expression selects trials by parameters, metrics and other columns of the table") {
  CHECK(numbers_of("") == "012");
  CHECK(numbers_of("lr < 0.25") == "01");
  CHECK(numbers_of("train.optimizer.lr >= 0.2 && state == succeeded") == "1");
  CHECK(numbers_of("accuracy > 0.55") == "12");
  CHECK(numbers_of("objective > 0.55 and step <= 100") == "1");
  CHECK(numbers_of("state == Failed or trial == 0") == "02");
  CHECK(numbers_of("duration == 30") == "1");
  CHECK(numbers_of("failure != null") == "2");
  CHECK(numbers_of("not failure == null") == "2");
  CHECK(numbers_of("hidden == [64]") == "1");
}

TEST_CASE("the prefixes `parameters` and `metrics` distinguish a parameter and a metric of the same name") {
  Trial trial;
  trial.point = {{"loss", 0.5}};
  trial.metrics = {{"loss", 0.1}};
  const Space space{{{"loss", Parameter::Kind::choice, {0.5}, 0, 0, {}}}, {}};
  Trial silent;
  silent.point = {{"loss", 0.5}};
  CHECK(select({trial, silent}, space, "parameters.loss == 0.5").size() == 2);
  CHECK(select({trial, silent}, space, "metrics.loss < 0.15").size() == 1);
  CHECK(select({trial, silent}, space, "metrics.loss > 0.15").empty());
  CHECK_THROWS_WITH_AS(
      select({trial, silent}, space, "trial == 0 and loss < 0.15"),
      doctest::Contains(
          "--where:1:16: 'loss' is a parameter and a metric; write parameters.loss or metrics.loss"),
      Error);
  CHECK(select({silent}, space, "loss == 0.5 and parameters.loss == 0.5").size() == 1);
}

TEST_CASE("an expression with `lr` is refused if `lr` is both a metric and the last word of a parameter") {
  Trial trial;
  trial.point = {{"train.optimizer.lr", 0.5}};
  trial.metrics = {{"lr", 0.1}};
  CHECK(select({trial}, {}, "metrics.lr == 0.1 and train.optimizer.lr == 0.5").size() == 1);
  const char* const both = "'lr' is a parameter and a metric; write train.optimizer.lr or metrics.lr";
  CHECK_THROWS_WITH_AS(select({trial}, {}, "lr < 0.2"), doctest::Contains(both), Error);
  RunStatus run;
  run.run = "a-1";
  run.experiment = {{"train", {{"optimizer", {{"lr", 0.5}}}}}};
  run.result = {{"step", 7}, {"metrics", {{"lr", 0.1}, {"step", 7}}}};
  CHECK(select_runs({run}, Time{}, "metrics.lr == 0.1 and optimizer.lr == 0.5 and step == 7").size() == 1);
  CHECK_THROWS_WITH_AS(select_runs({run}, Time{}, "lr < 0.2"), doctest::Contains(both), Error);
}

TEST_CASE("an expression is refused, with line and column, if it has a name or state that no trial has") {
  CHECK_THROWS_WITH_AS(numbers_of("lrr < 1"), doctest::Contains("--where:1:1: "), Error);
  CHECK_THROWS_WITH_AS(numbers_of("state == Suceeded"), doctest::Contains("--where:1:10: "), Error);
}

TEST_CASE("values_of_runs() finds values by the names of --where") {
  RunStatus first, second;
  first.run = "a-1";
  first.experiment = {{"args", {{"lr", 0.1}}}};
  first.result = {{"step", 7}, {"metrics", {{"acc", 0.9}}}};
  second.run = "a-2";
  using Rows = std::vector<std::vector<nlohmann::json>>;
  CHECK(values_of_runs({first, second}, {"acc", "args.lr", "lr", "step", "run"}, Time{}) ==
        Rows{{0.9, 0.1, 0.1, 7, "a-1"}, {nullptr, nullptr, nullptr, nullptr, "a-2"}});
  CHECK(values_of_runs({}, {"x"}, Time{}).empty());
  CHECK_THROWS_WITH_AS(values_of_runs({first}, {"acc", "acs"}, Time{}), doctest::Contains("--columns:1:5: "),
                       Error);
}

TEST_CASE("an expression selects runs by their owners, and `me` is the user of the command") {
  RunStatus of_anna, of_ben, old;
  of_anna.run = "a-1";
  of_anna.submitter = {"login", "anna"};
  of_ben.run = "b-1";
  of_ben.submitter = {"login", "ben"};
  old.run = "c-1";  // of an mlk that did not record the submitter
  const auto selected = [&](const std::string& expression, const Me& me) {
    std::string runs;
    for (const RunStatus& run : select_runs({of_anna, of_ben, old}, Time{}, expression, me))
      runs += run.run + " ";
    return runs;
  };
  const Me anna{{"login", "anna"}, ""};
  CHECK(selected("owner == me", anna) == "a-1 ");
  CHECK(selected("owner == anna", anna) == "a-1 ");
  CHECK(selected("owner != me", anna) == "b-1 ");
  CHECK(selected("owner in [me, ben]", anna) == "a-1 b-1 ");
  CHECK(selected("not (owner == me)", anna) == "b-1 c-1 ");
  CHECK(selected("owner == null", anna) == "c-1 ");
  CHECK(selected("owner == me", {{"login", "anna"}, "ben"}) == "a-1 b-1 ");
  CHECK(selected("owner == me", {{"login", "carl"}, ""}) == "");
  CHECK(selected("run == me", anna) == "");
}

TEST_CASE("an expression selects runs by experiment, metrics, tags and age") {
  RunStatus old, fresh;
  old.run = "a-1";
  old.name = "a";
  old.phase = Phase::failed;
  old.created = Time{};
  old.experiment = {{"train", {{"optimizer", {{"lr", 0.1}}}}}, {"run", "python x.py"}};
  old.tags = {"team=vision", "best"};
  fresh.run = "b-1";
  fresh.name = "b";
  fresh.phase = Phase::running;
  fresh.created = Time{} + std::chrono::hours(3);
  fresh.result = {{"step", 7}, {"metrics", {{"accuracy", 0.9}}}};
  const auto selected = [&](const std::string& expression) {
    std::string runs;
    for (const RunStatus& run : select_runs({old, fresh}, Time{} + std::chrono::hours(4), expression))
      runs += run.run + " ";
    return runs;
  };
  CHECK(selected("") == "a-1 b-1 ");
  CHECK(selected("phase == failed") == "a-1 ");
  CHECK(selected("state == Running and step > 5") == "b-1 ");
  CHECK(selected("age > 2h") == "a-1 ");
  CHECK(selected("age < 7200") == "b-1 ");
  CHECK(selected("lr < 0.2") == "a-1 ");
  CHECK(selected("accuracy > 0.5") == "b-1 ");
  CHECK(selected("team == vision") == "a-1 ");
  CHECK(selected("run == b-1") == "b-1 ");
  CHECK_THROWS_WITH_AS(selected("age > soon"), doctest::Contains("--where:1:7: 'soon' is no duration"),
                       Error);
  CHECK_THROWS_WITH_AS(selected("phase == Suceeded"), doctest::Contains("did you mean"), Error);
  old.experiment["env"] = {{"LR", "0.8"}, {"CPUS", "4"}, {"MEMORY", "16Gi"}};
  fresh.experiment["env"] = {{"LR", "auto"}};
  CHECK(selected("LR > 0.5") == "a-1 ");
  CHECK(selected("CPUS >= 4") == "a-1 ");
  CHECK_THROWS_WITH_AS(selected("step > 5 or not MEMORY < 20"),
                       doctest::Contains("--where:1:26: no value of env.MEMORY is a number; one is '16Gi'"),
                       Error);
  CHECK(selected("MEMORY != 20") == "a-1 ");
  CHECK(selected("MEMORY < '2'") == "a-1 ");
  CHECK(select_runs({}, {}, "lr < 1").empty());
  CHECK_THROWS_AS(select_runs({}, {}, "lr <"), Error);
}
