#include "sweeps/results/results.h"

#include <cmath>
#include <limits>
#include <map>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/json.h"
#include "sweeps/space/points_file.h"
#include "sweeps/space/ranking.h"

TEST_SUITE_BEGIN("sweeps/results/results");

using namespace mlk::sweeps;
using mlk::Problems;
using nlohmann::json;

namespace {

const Objective best_accuracy{Objective::Goal::maximize, "accuracy", Objective::Of::last, 1, ""};

Trial result_trial(int number, std::optional<double> accuracy, Point point) {
  Trial trial;
  trial.number = number;
  trial.state = TrialState::succeeded;
  trial.point = std::move(point);
  trial.objective = accuracy;
  trial.tries = 1;
  return trial;
}

std::vector<int> result_numbers(const std::vector<Trial>& trials) {
  std::vector<int> numbers;
  for (const Trial& trial : trials) numbers.push_back(trial.number);
  return numbers;
}

std::vector<std::string> result_columns(const ResultTable& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) names.push_back(column.name);
  return names;
}

using ResultNames = std::vector<std::string>;

std::vector<int> result_order(const std::vector<Trial>& trials, const std::string& sort,
                              std::size_t top = 0) {
  return result_numbers(in_order(trials, best_accuracy, {}, {sort, top}));
}

}  // namespace

TEST_CASE("the best trial comes first, and a failed trial or one without objective comes last") {
  std::vector<Trial> trials{result_trial(0, 0.5, {}), result_trial(1, {}, {}), result_trial(2, 0.9, {}),
                            result_trial(3, 0.99, {}), result_trial(4, 0.9, {})};
  trials[3].state = TrialState::failed;
  CHECK(result_order(trials, "") == std::vector<int>{2, 4, 0, 1, 3});
  CHECK(result_order(trials, "", 2) == std::vector<int>{2, 4});
  CHECK(result_order(trials, "", 9).size() == 5);
  REQUIRE(best(trials, best_accuracy) != nullptr);
  CHECK(best(trials, best_accuracy)->number == 2);
  Objective least = best_accuracy;
  least.goal = Objective::Goal::minimize;
  CHECK(best(trials, least)->number == 0);
  CHECK(best({}, least) == nullptr);
  const std::vector<Trial> unknown{result_trial(0, {}, {}), result_trial(1, std::nan(""), {}), trials[3]};
  CHECK(best(unknown, least) == nullptr);
}

TEST_CASE("trials can be sorted by any column, and trials without a value always come last") {
  std::vector<Trial> trials{result_trial(0, 0.5, {{"train.optimizer.lr", 0.3}, {"kind", "b"}}),
                            result_trial(1, 0.7, {{"train.optimizer.lr", 10}, {"kind", "a"}}),
                            result_trial(2, 0.6, {{"kind", 7}}),
                            result_trial(3, {}, {{"train.optimizer.lr", 0.2}, {"kind", "c"}})};
  trials[1].metrics = {{"loss", 0.1}};
  trials[2].metrics = {{"loss", std::nan("")}};
  trials[3].metrics = {{"loss", 0.05}};
  for (const char* name : {"lr", "LR", "train.optimizer.lr"})
    CHECK(result_order(trials, name) == std::vector<int>{3, 0, 1, 2});
  CHECK(result_order(trials, "-lr") == std::vector<int>{1, 0, 3, 2});
  CHECK(result_order(trials, "kind") == std::vector<int>{2, 1, 0, 3});
  CHECK(result_order(trials, "accuracy") == std::vector<int>{0, 2, 1, 3});
  CHECK(result_order(trials, "objective") == std::vector<int>{0, 2, 1, 3});
  CHECK(result_order(trials, "-objective") == std::vector<int>{1, 2, 0, 3});
  CHECK(result_order(trials, "loss") == std::vector<int>{3, 1, 2, 0});
  CHECK(result_order(trials, "-trial", 2) == std::vector<int>{3, 2});
  // Trials with equal cells keep their rank order.
  CHECK(result_order(trials, "tries") == std::vector<int>{1, 2, 0, 3});
}

TEST_CASE("the error for an unknown column lists the existing columns") {
  const std::vector<Trial> trials{result_trial(0, 0.5, {{"momentum", 0.3}})};
  try {
    result_order(trials, "-momentun");
    FAIL("nothing was thrown");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(error.what() == std::string("there is no column 'momentun'; did you mean 'momentum'?"));
    CHECK(error.hint() == "sort by one of: trial, state, accuracy, momentum, duration, tries, failure");
  }
  CHECK_THROWS_AS(result_order(trials, "-"), mlk::Error);
}

TEST_CASE("a table has columns for trial, state and objective, and then for the parameters that vary") {
  Space space;
  space.parameters = {{"train.optimizer.lr", Parameter::Kind::log_uniform, {}, 0.1, 1, {}},
                      {"train.steps", Parameter::Kind::choice, {100}, 0, 0, {}},
                      {"train.model.hidden", Parameter::Kind::choice, {{1}, {2}}, 0, 0, {}}};
  std::vector<Trial> trials{
      result_trial(0, 0.5, {{"train.optimizer.lr", 0.3}, {"train.steps", 100}, {"x", 1}}),
      result_trial(1, 0.7, {{"train.optimizer.lr", 0.3}, {"train.steps", 100}})};
  CHECK(result_columns(result_table(trials, best_accuracy, space)) ==
        ResultNames{"trial", "state", "accuracy", "lr", "hidden", "x", "duration", "tries"});
  trials[1].failure = "exit code 1";
  trials[0].metrics = {{"accuracy", 0.5}, {"loss", 1}};
  CHECK(result_columns(result_table(trials, best_accuracy, space)).back() == "failure");
  CHECK(result_columns(result_table(trials, best_accuracy, space, true)) ==
        ResultNames{"trial", "state", "accuracy", "lr", "steps", "hidden", "x", "loss", "duration", "tries",
                    "failure"});
  CHECK(result_columns(result_table({}, best_accuracy, space)) ==
        ResultNames{"trial", "state", "accuracy", "lr", "hidden", "duration", "tries"});
  CHECK(result_columns(result_table({}, Objective{}, space, true)) ==
        ResultNames{"trial", "state", "lr", "steps", "hidden", "duration", "tries", "failure"});
}

TEST_CASE("the name of a parameter's column is the shortest end of its path that is unique") {
  const Point point{{"train.optimizer.lr", 1},
                    {"train.schedule.lr", 2},
                    {"a.b.c", 3},
                    {"z.b.c", 4},
                    {"steps", 5},
                    {"train.steps", 6},
                    {"accuracy", 7},
                    {"x.tries", 8},
                    {"model.accuracy", 9},
                    {"loss", 10}};
  std::vector<Trial> trials{result_trial(0, 0.5, point)};
  trials[0].metrics = {{"loss", 1}, {"lr", 2}, {"state", 3}};
  const ResultTable table = result_table(trials, best_accuracy, {}, true);
  std::map<std::string, std::string> paths;
  for (const Column& column : table.columns) CHECK(paths.emplace(column.name, column.of).second);
  CHECK(paths.at("optimizer.lr") == "train.optimizer.lr");
  CHECK(paths.at("schedule.lr") == "train.schedule.lr");
  CHECK(paths.at("a.b.c") == "a.b.c");
  CHECK(paths.at("z.b.c") == "z.b.c");
  CHECK(paths.at("steps") == "steps");
  CHECK(paths.at("train.steps") == "train.steps");
  CHECK(paths.at("parameters.accuracy") == "accuracy");
  CHECK(paths.at("model.accuracy") == "model.accuracy");
  CHECK(paths.at("x.tries") == "x.tries");
  CHECK(paths.at("loss") == "loss");
  CHECK(paths.at("metrics.loss") == "loss");
  CHECK(paths.at("lr") == "lr");
  CHECK(paths.at("metrics.state") == "state");
}

TEST_CASE("a cell of a table has the exact value, and the duration of a trial is empty until its end") {
  std::vector<Trial> trials{result_trial(3, 1.0 / 3, {{"a", {1, "x"}}}), result_trial(4, {}, {})};
  trials[0].started = mlk::parse_time("2026-11-23T10:00:00Z");
  trials[0].ended = mlk::parse_time("2026-11-23T10:01:00.25Z");
  trials[1].started = trials[0].started;
  const ResultTable table = result_table(trials, best_accuracy, {});
  CHECK(table.rows[0] == std::vector<json>{3, "Succeeded", 1.0 / 3, {1, "x"}, 60.25, 1});
  CHECK(table.rows[1] == std::vector<json>{4, "Succeeded", nullptr, nullptr, nullptr, 1});
  trials[0].started = mlk::Time::min();
  trials[0].ended = mlk::Time::max();
  CHECK(result_table(trials, best_accuracy, {}).rows[0][4].get<double>() > 1e10);
  std::swap(trials[0].started, trials[0].ended);
  CHECK(result_table(trials, best_accuracy, {}).rows[0][4] == 0);
}

TEST_CASE("CSV and TSV have full numbers, lists as JSON, and empty fields for missing values") {
  std::vector<Trial> trials{result_trial(0, 1.0 / 3, {{"a.list", {1, "x"}}, {"text", "a,\"b\"\nc\td\x1b"}}),
                            result_trial(1, {}, {{"text", ""}})};
  trials[1].failure = "exit code 1";
  const ResultTable table = result_table(trials, best_accuracy, {});
  CHECK(to_csv(table) ==
        "trial,state,accuracy,list,text,duration,tries,failure\n"
        "0,Succeeded,0.3333333333333333,\"[1,\"\"x\"\"]\",\"a,\"\"b\"\"\nc\td\\u001b\",,1,\n"
        "1,Succeeded,,,\"\",,1,exit code 1\n");
  CHECK(to_tsv(table) ==
        "trial\tstate\taccuracy\tlist\ttext\tduration\ttries\tfailure\n"
        "0\tSucceeded\t0.3333333333333333\t[1,\"x\"]\ta,\"b\" c d\\u001b\t\t1\t\n"
        "1\tSucceeded\t\t\t\t\t1\texit code 1\n");
}

TEST_CASE("CSV and TSV keep a value that looks like a formula") {
  const std::vector<Trial> trials{result_trial(0, 1.0, {{"text", "=1+1"}}),
                                  result_trial(1, 1.0, {{"text", "x"}})};
  const ResultTable table = result_table(trials, best_accuracy, {});
  CHECK(to_csv(table).find(",=1+1,") != std::string::npos);
  CHECK(to_tsv(table).find("\t=1+1\t") != std::string::npos);
}

TEST_CASE("CSV has the words nan and inf for numbers that are not finite") {
  std::vector<Trial> trials{result_trial(0, 1, {})};
  trials[0].metrics = {{"a", std::nan("")}, {"b", -std::numeric_limits<double>::infinity()}};
  const std::string csv = to_csv(result_table(trials, best_accuracy, {}, true));
  CHECK_MESSAGE(csv.find(",nan,-inf,") != std::string::npos, csv);
}

TEST_CASE("read_points() reads the parameters of trials from a CSV table of results") {
  const std::vector<Trial> trials{
      result_trial(0, 0.1, {{"lr", 0.1 + 0.2}, {"hidden", {128, 64}}, {"kind", "a, b"}}),
      result_trial(1, 0.2, {{"lr", 5e-324}, {"kind", true}})};
  Problems problems;
  const std::optional<PointsFile> file =
      read_points(to_csv(result_table(trials, best_accuracy, {})), "r.csv", problems);
  REQUIRE(file.has_value());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    for (const auto& [path, value] : trials[i].point) CHECK(file->points[i].at(path) == value);
    CHECK(file->points[i].at("accuracy") == *trials[i].objective);
  }
}

TEST_CASE("to_markdown() escapes characters of a cell that would break the table") {
  std::vector<Trial> trials{result_trial(0, 0.123456, {{"kind", "a|b\\c<d>*`\ne"}})};
  trials[0].point["lr"] = 12345.678;
  CHECK(to_markdown(result_table(trials, best_accuracy, {}, true)) ==
        "| trial | state | accuracy | kind | lr | duration | tries | failure |\n"
        "| ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |\n"
        "| 0 | Succeeded | 0.1235 | a\\|b\\\\c&lt;d>\\*\\` e | 12346 |  | 1 |  |\n");
}

TEST_CASE("a table on a terminal has rounded numbers, readable durations, and no control characters") {
  std::vector<Trial> trials{result_trial(0, 0.97979798, {{"lr", 0.1}, {"steps", 123456}, {"kind", "a\x1b"}})};
  trials[0].started = mlk::parse_time("2026-11-23T10:00:00Z");
  trials[0].ended = mlk::parse_time("2026-11-23T10:03:20.4Z");
  const ResultTable table = result_table(trials, best_accuracy, {}, true);
  CHECK(shown_headers(table) ==
        ResultNames{"TRIAL", "STATE", "ACCURACY", "KIND", "LR", "STEPS", "DURATION", "TRIES", "FAILURE"});
  CHECK(shown_rows(table) ==
        std::vector<ResultNames>{{"0", "Succeeded", "0.9798", "a?", "0.1", "123456", "3m20s", "1", ""}});
}

TEST_CASE("results_json() writes all known values of a trial, and names parameters by their paths") {
  Trial trial = result_trial(7, 0.5, {{"train.optimizer.lr", 0.1}});
  trial.hash = "abc";
  trial.step = 500;
  trial.metrics = {{"loss", 0.25}};
  trial.curve = {{100, 0.4}, {500, 0.5}};
  trial.started = mlk::parse_time("2026-11-23T10:00:00Z");
  CHECK(results_json({trial, Trial()}) == json::parse(R"([
    {"trial": 7, "hash": "abc", "state": "Succeeded", "tries": 1, "step": 500, "objective": 0.5,
     "parameters": {"train.optimizer.lr": 0.1}, "metrics": {"loss": 0.25}, "curve": [[100, 0.4], [500, 0.5]],
     "started": "2026-11-23T10:00:00Z", "ended": null, "failure": null},
    {"trial": 0, "hash": "", "state": "Waiting", "tries": 0, "step": 0, "objective": null, "parameters": {},
     "metrics": {}, "curve": [], "started": null, "ended": null, "failure": null}])"));
  CHECK(results_json({}) == json::array());
}
