#include "sweeps/space/objective.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/space/objective");

using namespace mlk::sweeps;
using mlk::Problems;

namespace {

// The messages about mistakes in the objective, or "" if there are none.
std::string objective_mistakes(const std::string& yaml) {
  Problems problems;
  const std::optional<Objective> objective =
      read_objective(mlk::parse_yaml(yaml, "f"), "objective", problems);
  CHECK(objective.has_value() == problems.empty());
  try {
    problems.throw_if_any();
  } catch (const mlk::Error& error) {
    return error.what();
  }
  return "";
}

Objective objective_of(const std::string& yaml) {
  Problems problems;
  const std::optional<Objective> objective =
      read_objective(mlk::parse_yaml(yaml, "f"), "objective", problems);
  REQUIRE_MESSAGE(objective.has_value(), yaml);
  return *objective;
}

std::optional<double> value_of_reports(const Objective& objective, const std::vector<double>& values) {
  std::vector<std::pair<std::int64_t, double>> reports;
  for (const double value : values) reports.emplace_back(reports.size(), value);
  return value_of(objective, reports);
}

constexpr double objective_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double objective_infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("an objective is a goal and a metric in two words") {
  const Objective up = objective_of("maximize accuracy");
  CHECK(up.goal == Objective::Goal::maximize);
  CHECK(up.metric == "accuracy");
  CHECK(up.of == Objective::Of::last);
  CHECK(up.regex.empty());
  const Objective down = objective_of("\"minimize \t eval/loss \"");
  CHECK(down.goal == Objective::Goal::minimize);
  CHECK(down.metric == "eval/loss");
}

TEST_CASE("an objective may be a map with a goal, a metric, a choice of reports and a regex") {
  const Objective mean = objective_of("{minimize: loss, of: mean, count: 10}");
  CHECK(mean.goal == Objective::Goal::minimize);
  CHECK(mean.metric == "loss");
  CHECK(mean.of == Objective::Of::mean);
  CHECK(mean.count == 10);
  const Objective best = objective_of("{maximize: acc, of: best, regex: 'acc: (.+)'}");
  CHECK(best.goal == Objective::Goal::maximize);
  CHECK(best.of == Objective::Of::best);
  CHECK(best.regex == "acc: (.+)");
  CHECK(objective_of("{maximize: acc, of: last}").of == Objective::Of::last);
}

TEST_CASE("a mistake in an objective is reported with line and column") {
  const struct {
    const char *yaml, *said;
  } cases[] = {
      {"maximise accuracy",
       "f:1:1: objective must be `maximize METRIC` or `minimize METRIC`, not 'maximise "
       "accuracy'; did you mean 'maximize'?"},
      {"maximize", "f:1:1: objective must be `maximize METRIC` or `minimize METRIC`, not 'maximize'"},
      {"accuracy", "f:1:1: objective must be `maximize METRIC` or `minimize METRIC`, not 'accuracy'"},
      {"maximize val accuracy", "f:1:1: a metric's name is one word"},
      {"maximize a=b", "f:1:1: a metric's name is one word"},
      {"[maximize, loss]",
       "f:1:1: objective must be `maximize METRIC`, `minimize METRIC` or a map, not a list"},
      {"", "f:1:1: objective must be `maximize METRIC`, `minimize METRIC` or a map, not nothing"},
      {"{maximize: a, minimize: b}", "f:1:15: objective has one goal: maximize or minimize, not both"},
      {"{of: best}", "f:1:1: objective needs `maximize: METRIC` or `minimize: METRIC`"},
      {"{maximize: [a]}", "f:1:12: objective.maximize must be the name of a metric, not a list"},
      {"{maximize: a, off: best}", "f:1:15: unknown key 'off' in objective; did you mean 'of'?"},
      {"{maximize: a, of: bets}",
       "f:1:19: objective.of must be last, best or mean, not 'bets'; did you mean 'best'?"},
      {"{maximize: a, of: [best]}", "f:1:19: objective.of must be last, best or mean, not a list"},
      {"{maximize: a, of: mean}", "f:1:19: objective.count is missing"},
      {"{maximize: a, count: 5}", "f:1:15: objective.count goes with `of: mean` only"},
      {"{maximize: a, of: mean, count: 0}",
       "f:1:32: objective.count must be a whole number from 1 to 1000, not '0'"},
      {"{maximize: a, of: mean, count: 1001}",
       "f:1:32: objective.count must be a whole number from 1 to 1000, not '1001'"},
      {"{maximize: a, of: mean, count: 99999999999999999999}", "f:1:32: objective.count must be"},
      {"{maximize: a, regex: [b]}", "f:1:22: objective.regex must be text, not a list"},
      {"{maximize: a, regex: 'b('}", "f:1:22: objective.regex is not valid: missing ): b("},
      {"{maximize: a, regex: 'b'}", "f:1:22: objective.regex needs a group"},
  };
  for (const auto& [yaml, said] : cases) {
    const std::string mistakes = objective_mistakes(yaml);
    CHECK_MESSAGE(mistakes.starts_with(said), mistakes);
  }
  CHECK(objective_mistakes("{maximize: " + std::string(64, 'a') + "}").empty());
  CHECK_FALSE(objective_mistakes("{maximize: " + std::string(65, 'a') + "}").empty());
}

TEST_CASE("several mistakes in one objective are reported together") {
  const std::string said = objective_mistakes("{of: beast, count: x, metric: a}");
  for (const char* part : {"objective.of", "objective.count must", "unknown key 'metric'", "needs `maximize"})
    CHECK_MESSAGE(said.find(part) != std::string::npos, said);
}

TEST_CASE("the goal decides whether a smaller or a larger value is better") {
  const Objective down = objective_of("minimize loss"), up = objective_of("maximize accuracy");
  CHECK(is_better(down, 1, 2));
  CHECK_FALSE(is_better(down, 2, 1));
  CHECK(is_better(up, 2, 1));
  CHECK_FALSE(is_better(up, 1, 2));
  CHECK_FALSE(is_better(down, 1, 1));
  CHECK_FALSE(is_better(up, 1, 1));
}

TEST_CASE("the value of a trial is the last report, the best report, or the mean of the last reports") {
  const std::vector<double> values{5, 1, 2, 3};
  CHECK(value_of_reports(objective_of("minimize loss"), values) == 3);
  CHECK(value_of_reports(objective_of("{minimize: loss, of: best}"), values) == 1);
  CHECK(value_of_reports(objective_of("{maximize: loss, of: best}"), values) == 5);
  CHECK(value_of_reports(objective_of("{minimize: loss, of: mean, count: 2}"), values) == 2.5);
  CHECK(value_of_reports(objective_of("{minimize: loss, of: mean, count: 9}"), values) == 2.75);
  for (const char* any :
       {"minimize loss", "{minimize: loss, of: best}", "{minimize: loss, of: mean, count: 2}"})
    CHECK_FALSE(value_of_reports(objective_of(any), {}).has_value());
}

TEST_CASE("the last report of a trial is the newest one, even if its step is smaller") {
  const Objective last = objective_of("minimize loss");
  CHECK(value_of(last, {{100, 1.0}, {200, 2.0}, {50, 3.0}}) == 3);
}

TEST_CASE("with `of: best`, a trial has a value if any report is finite, even if the last report is not") {
  for (const double bad : {objective_nan, objective_infinity, -objective_infinity}) {
    CHECK_FALSE(value_of_reports(objective_of("minimize loss"), {1, bad}).has_value());
    CHECK(value_of_reports(objective_of("minimize loss"), {bad, 1}) == 1);
    for (const char* best : {"{minimize: loss, of: best}", "{maximize: loss, of: best}"}) {
      CHECK(value_of_reports(objective_of(best), {bad, 1, bad}) == 1);
      CHECK_FALSE(value_of_reports(objective_of(best), {bad}).has_value());
    }
    const Objective mean = objective_of("{minimize: loss, of: mean, count: 2}");
    CHECK_FALSE(value_of_reports(mean, {1, bad, 1}).has_value());
    CHECK(value_of_reports(mean, {bad, 1, 3}) == 2);
  }
}

TEST_CASE("the name of a metric is one word of plain characters, and `count` is at most 1000") {
  CHECK(objective_of("{minimize: loss, of: mean, count: 1}").count == 1);
  CHECK(objective_of("{minimize: loss, of: mean, count: 1000}").count == 1000);
  CHECK(objective_of("minimize a!~").metric == "a!~");
  for (const char* name : {"'a\"b'", "a=b", "\"\\xe4\"", "'a b'", "''", "\"a\\x7f\""})
    CHECK_MESSAGE(
        objective_mistakes(std::string("{maximize: ") + name + "}").find("one word of at most 64") !=
            std::string::npos,
        name);
  CHECK(objective_of("minimize loss").position == "step");
  CHECK(objective_of("minimize loss").count == 1);
  CHECK(objective_mistakes("{minimize: a, of: best, count: 2}").find("goes with `of: mean` only") !=
        std::string::npos);
  CHECK(objective_mistakes("{minimize: a, minimise: b}").find("did you mean 'minimize'?") !=
        std::string::npos);
}
