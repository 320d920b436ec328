// Tests edge cases of cells in tables of results, and the choice of columns.
#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "sweeps/results/result_cells.h"
#include "sweeps/results/results.h"
#include "sweeps/space/ranking.h"

TEST_SUITE_BEGIN("sweeps/results/results_cells");

using namespace mlk::sweeps;
using nlohmann::json;

namespace {

using CellTexts = std::vector<std::string>;

Trial cell_trial(int number, std::optional<double> objective, Point point = {}) {
  Trial trial;
  trial.number = number;
  trial.state = TrialState::succeeded;
  trial.objective = objective;
  trial.point = std::move(point);
  return trial;
}

Objective cell_objective(Objective::Of of = Objective::Of::last) {
  Objective objective;
  objective.goal = Objective::Goal::maximize;
  objective.metric = "acc";
  objective.of = of;
  return objective;
}

CellTexts cell_columns(const std::vector<Trial>& trials, const Objective& objective, const Space& space,
                       bool wide = false) {
  CellTexts names;
  for (const Column& column : result_table(trials, objective, space, wide).columns)
    names.push_back(column.name);
  return names;
}

bool has_column(const CellTexts& columns, const std::string& name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

// The text of one value in a table for people.
std::string cell_shown(const json& value, Column::Kind kind = Column::Kind::parameter) {
  return shown_rows({{{kind, "c", "c"}}, {{value}}}).at(0).at(0);
}

std::vector<int> cell_order(const std::vector<Trial>& trials, const std::string& sort) {
  std::vector<int> numbers;
  for (const Trial& trial : in_order(trials, cell_objective(), {}, {sort, 0}))
    numbers.push_back(trial.number);
  return numbers;
}

}  // namespace

TEST_CASE("a number in a table has four significant digits, or a whole part of up to nine digits") {
  const struct {
    double value;
    std::string text;
  } cases[] = {{0.123456, "0.1235"}, {1234.56, "1235"},    {9999.4, "9999"},
               {10000.4, "10000"},   {-12345.6, "-12346"}, {999999999.4, "999999999"},
               {1e9, "1e+09"},       {-1e9, "-1e+09"},     {1.23456e12, "1.235e+12"},
               {0.0, "0"},           {1.5e-7, "1.5e-07"}};
  for (const auto& each : cases) CHECK(cell_shown(each.value) == each.text);
  CHECK(cell_shown(std::nan("")) == "nan");
  CHECK(cell_shown(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(cell_shown(1234567890123) == "1234567890123");
  CHECK(cell_shown(true) == "true");
  CHECK(cell_shown(nullptr) == "");
  CHECK(cell_shown(json{1, "a"}) == "[1,\"a\"]");
  CHECK(cell_shown(59.6, Column::Kind::duration) == "1m");
  CHECK(cell_shown(90, Column::Kind::duration) == "1m30s");
  CHECK(cell_shown(nullptr, Column::Kind::duration) == "");
}

TEST_CASE("a column of a Markdown table is aligned to the right if all its values are numbers") {
  const ResultTable table{{{Column::Kind::parameter, "a", "a"},
                           {Column::Kind::parameter, "b", "b"},
                           {Column::Kind::parameter, "c", "c"}},
                          {{1, "x", nullptr}, {nullptr, 2, nullptr}, {2.5, nullptr, nullptr}}};
  CHECK(to_markdown(table) ==
        "| a | b | c |\n| ---: | --- | ---: |\n| 1 | x |  |\n|  | 2 |  |\n| 2.5 |  |  |\n");
  CHECK(to_markdown({{{Column::Kind::parameter, "a|\tb", ""}}, {{"x\ty"}}}).starts_with("| a\\|"));
}

TEST_CASE("a parameter has a column if it may have several values, or if its values in the trials differ") {
  const auto varies = [](const Parameter& parameter, const std::vector<json>& values) {
    std::vector<Trial> trials;
    for (const json& value : values)
      trials.push_back(cell_trial(static_cast<int>(trials.size()), 1, {{"p", value}}));
    return has_column(cell_columns(trials, cell_objective(), {{parameter}, {}}), "p");
  };
  using Kind = Parameter::Kind;
  CHECK(varies({"p", Kind::choice, {1, 2}, 0, 0, {}}, {1, 1}));
  CHECK_FALSE(varies({"p", Kind::choice, {1}, 0, 0, {}}, {1, 1}));
  CHECK(varies({"p", Kind::choice, {1}, 0, 0, {}}, {1, 2}));
  CHECK(varies({"p", Kind::integer, {}, 1, 2, {}}, {1, 1}));
  CHECK_FALSE(varies({"p", Kind::integer, {}, 1, 1, {}}, {1, 1}));
  CHECK(varies({"p", Kind::uniform, {}, 0, 1, {}}, {}));
  CHECK_FALSE(varies({"other", Kind::choice, {1}, 0, 0, {}}, {1, 1}));
  CHECK(varies({"other", Kind::choice, {1}, 0, 0, {}}, {1, 2}));
}

TEST_CASE("the objective's metric has its own column if the objective is not the metric's last value") {
  std::vector<Trial> trials{cell_trial(0, 0.9)};
  trials[0].metrics = {{"acc", 0.5}, {"loss", 2}};
  CHECK_FALSE(has_column(cell_columns(trials, cell_objective(), {}, true), "metrics.acc"));
  const ResultTable best = result_table(trials, cell_objective(Objective::Of::best), {}, true);
  const auto found = std::find_if(best.columns.begin(), best.columns.end(),
                                  [](const Column& column) { return column.name == "metrics.acc"; });
  REQUIRE(found != best.columns.end());
  CHECK(best.rows[0][static_cast<std::size_t>(found - best.columns.begin())] == 0.5);
  CHECK_FALSE(has_column(cell_columns(trials, cell_objective(Objective::Of::best), {}), "metrics.acc"));
  CHECK_FALSE(has_column(cell_columns(trials, {}, {}), "objective"));
}

TEST_CASE(
    "a trial with an infinite value is never the best, and the earlier of two equal trials comes first") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Trial> trials{cell_trial(0, infinity), cell_trial(3, 0.5), cell_trial(1, 0.5),
                                  cell_trial(2, -infinity)};
  CHECK(cell_order(trials, "") == std::vector<int>{1, 3, 0, 2});
  CHECK(best(trials, cell_objective())->number == 1);
  CHECK(best({trials[0]}, cell_objective()) == nullptr);
}

TEST_CASE("trials can be sorted by any column, even if two names differ only in case") {
  std::vector<Trial> trials{cell_trial(0, 3), cell_trial(1, 2), cell_trial(2, 1)};
  trials[0].failure = "b";
  trials[1].failure = "a";
  trials[1].state = TrialState::failed;
  for (std::size_t i = 0; i < 2; ++i) {
    trials[i].started = mlk::Time{};
    trials[i].ended = mlk::later(mlk::Time{}, i == 0 ? 20 : 3);
  }
  CHECK(cell_order(trials, "failure") == std::vector<int>{1, 0, 2});
  CHECK(cell_order(trials, "-failure") == std::vector<int>{0, 1, 2});
  CHECK(cell_order(trials, "state") == std::vector<int>{1, 0, 2});
  CHECK(cell_order(trials, "duration") == std::vector<int>{1, 0, 2});
  trials[0].point = {{"LR", 2}, {"lr", 1}};
  trials[1].point = {{"LR", 1}, {"lr", 2}};
  trials[2].point = {{"LR", 3}, {"lr", 3}};
  CHECK(cell_order(trials, "lr") == std::vector<int>{0, 1, 2});
  CHECK(cell_order(trials, "LR") == std::vector<int>{1, 0, 2});
  CHECK_THROWS_WITH_AS(cell_order(trials, "qqqqqq"), "there is no column 'qqqqqq'", mlk::Error);
}

TEST_CASE("in a sorted column, numbers come before texts, and the text of a list decides its place") {
  const std::vector<Trial> trials{cell_trial(0, 5, {{"p", "10"}}), cell_trial(1, 4, {{"p", 9}}),
                                  cell_trial(2, 3, {{"p", 10}}), cell_trial(3, 2, {{"p", json{1}}}),
                                  cell_trial(4, 1)};
  CHECK(cell_order(trials, "p") == std::vector<int>{1, 2, 0, 3, 4});
  CHECK(cell_order(trials, "-p") == std::vector<int>{3, 0, 2, 1, 4});
}

TEST_CASE("whole numbers beyond 2^53 and 2^63 are sorted exactly, even beside other numbers") {
  const std::vector<Trial> trials{cell_trial(0, 5, {{"p", std::uint64_t{18446744073709551615u}}}),
                                  cell_trial(1, 4, {{"p", 9007199254740993}}),
                                  cell_trial(2, 3, {{"p", 9007199254740992.0}}),
                                  cell_trial(3, 2, {{"p", -1}})};
  CHECK(cell_order(trials, "p") == std::vector<int>{3, 2, 1, 0});
  CHECK(cell_order(trials, "-p") == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("results_json() writes the end time and the failure of a trial") {
  Trial trial = cell_trial(1, {});
  trial.state = TrialState::failed;
  trial.failure = "exit code 3";
  trial.ended = mlk::parse_time("2026-11-23T10:00:05Z");
  trial.metrics = "none";
  const json out = results_json({trial}).at(0);
  CHECK(out["failure"] == "exit code 3");
  CHECK(out["ended"] == "2026-11-23T10:00:05Z");
  CHECK(out["started"].is_null());
  CHECK(out["metrics"] == json::object());
  CHECK(out["state"] == "Failed");
}
