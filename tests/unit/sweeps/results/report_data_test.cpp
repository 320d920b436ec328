#include "sweeps/results/report_data.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "cli/util/json.h"

TEST_SUITE_BEGIN("sweeps/results/report_data");

using namespace mlk::sweeps;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Objective maximized(const std::string& metric = "accuracy") {
  Objective objective;
  objective.goal = Objective::Goal::maximize;
  objective.metric = metric;
  return objective;
}

Trial valued(int number, std::optional<double> value, TrialState state = TrialState::succeeded) {
  Trial trial;
  trial.number = number;
  trial.state = state;
  trial.objective = value;
  return trial;
}

std::vector<Trial> ascending(int count) {
  std::vector<Trial> trials;
  for (int i = 0; i < count; ++i) trials.push_back(valued(i, i));
  return trials;
}

std::vector<std::size_t> all_of(const std::vector<Trial>& trials) {
  std::vector<std::size_t> indices(trials.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

Trial timed(int number, Point point, int seconds, TrialState state = TrialState::succeeded) {
  Trial trial = valued(number, 1, state);
  trial.point = std::move(point);
  trial.started = mlk::Time{};
  if (has_ended(state)) trial.ended = mlk::later(mlk::Time{}, seconds);
  return trial;
}

ReportData sample_data(int trials) {
  ReportData data;
  data.title = "sweep";
  data.objective = maximized();
  data.space.parameters = {{"lr", Parameter::Kind::log_uniform, {}, 1e-4, 1, {}},
                           {"kind", Parameter::Kind::choice, {"a", "b", {1, 2}}, 0, 0, {}}};
  for (int i = 0; i < trials; ++i) {
    Trial trial = valued(i, i * 0.5);
    trial.point = {{"lr", 0.1}, {"kind", i % 2 == 0 ? nlohmann::json("a") : nlohmann::json({1, 2})}};
    trial.metrics = {{"accuracy", i * 0.5}, {"loss", 1}, {"note", "text"}};
    trial.curve = {{1, 0.0}, {2, i * 0.5}};
    data.trials.push_back(std::move(trial));
  }
  return data;
}

bool says(const nlohmann::json& page, const std::string& text) {
  return std::any_of(page["notes"].begin(), page["notes"].end(), [&](const nlohmann::json& note) {
    return note.get<std::string>().find(text) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("best_of() returns the trial with the best value among the trials that have not failed") {
  const std::vector<Trial> trials{
      valued(0, 0.5),          valued(1, 0.9, TrialState::failed),  valued(2, std::nullopt),
      valued(3, not_a_number), valued(4, 0.7, TrialState::running), valued(5, 0.1)};
  CHECK(best_of(trials, maximized()) == 4);
  CHECK(best_of(trials, {}) == 5);
  CHECK(best_of({valued(0, std::nullopt)}, {}) == std::nullopt);
  CHECK(best_of({valued(0, 1), valued(1, 1)}, {}) == 0);
}

TEST_CASE(
    "representative() returns all trials if they are few, else the best ones and a sample of the others") {
  const std::vector<Trial> trials = ascending(1000);
  CHECK(representative(trials, maximized(), all_of(trials), 1000).size() == 1000);
  const std::vector<std::size_t> chosen = representative(trials, maximized(), all_of(trials), 50);
  CHECK(chosen.size() == 50);
  CHECK(std::is_sorted(chosen.begin(), chosen.end()));
  for (std::size_t best = 990; best < 1000; ++best)
    CHECK(std::count(chosen.begin(), chosen.end(), best) == 1);
  CHECK(chosen.front() == 0);
  CHECK(std::count_if(chosen.begin(), chosen.end(), [](std::size_t i) { return i < 500; }) >= 18);
  CHECK(representative(trials, maximized(), all_of(trials), 0).empty());
  CHECK(representative(trials, maximized(), all_of(trials), 1) == std::vector<std::size_t>{999});
}

TEST_CASE("representative() prefers a trial with a value to failed trials and to trials without a value") {
  std::vector<Trial> trials;
  for (int i = 0; i < 10; ++i) trials.push_back(valued(i, std::nullopt));
  trials[3].objective = not_a_number;
  trials[4] = valued(4, 1, TrialState::failed);
  trials[7] = valued(7, 0.1);
  const std::vector<std::size_t> chosen = representative(trials, maximized(), all_of(trials), 1);
  CHECK(chosen == std::vector<std::size_t>{7});
}

TEST_CASE("count_paths() returns those counts (of workers, servers or nodes) that vary in a sweep") {
  Space space;
  space.parameters = {{"workers.count", Parameter::Kind::choice, {1, 2}, 0, 0, {}},
                      {"servers.count", Parameter::Kind::choice, {1}, 0, 0, {}},
                      {"nodes", Parameter::Kind::integer, {}, 1, 4, {}},
                      {"discount", Parameter::Kind::uniform, {}, 0, 1, {}},
                      {"", Parameter::Kind::uniform, {}, 0, 1, {}}};
  CHECK(count_paths(space) == std::vector<std::string>{"workers.count", "nodes"});
}

TEST_CASE("times_by_count() uses successful trials, and compares each count with the smallest one") {
  Space space;
  space.parameters = {{"workers.count", Parameter::Kind::choice, {1, 2, 10}, 0, 0, {}}};
  const std::vector<Trial> trials{timed(0, {{"workers.count", 10}}, 25),
                                  timed(1, {{"workers.count", 1}}, 90),
                                  timed(2, {{"workers.count", 1}}, 110),
                                  timed(3, {{"workers.count", 2}}, 40),
                                  timed(4, {{"workers.count", 2}}, 60),
                                  timed(5, {{"workers.count", 2}}, 50),
                                  timed(6, {{"workers.count", 2}}, 1, TrialState::failed),
                                  timed(7, {{"workers.count", 2}}, 1, TrialState::running)};
  const std::vector<CountTimes> rows = times_by_count(space, trials);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].counts.at("workers.count") == 1);
  CHECK(rows[0].median == 100);
  CHECK(rows[0].speedup == 1);
  CHECK(rows[1].trials == 3);
  CHECK(rows[1].shortest == 40);
  CHECK(rows[1].median == 50);
  CHECK(rows[1].longest == 60);
  CHECK(rows[1].speedup == 2);
  CHECK(rows[2].counts.at("workers.count") == 10);
  CHECK(rows[2].speedup == 4);
  CHECK(times_by_count({}, trials).empty());
}

TEST_CASE("times_by_count() reports a speed-up of 1 if the trials took no time") {
  Space space;
  space.parameters = {{"workers.count", Parameter::Kind::choice, {1, 2}, 0, 0, {}}};
  const std::vector<CountTimes> rows =
      times_by_count(space, {timed(0, {{"workers.count", 1}}, 0), timed(1, {{"workers.count", 2}}, 0)});
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].speedup == 1);
}

TEST_CASE("report_data() writes numbers as numbers, and other values of a point as text") {
  ReportData data = sample_data(2);
  data.trials[0].point["kind"] = nullptr;
  data.trials[0].point.erase("lr");
  data.trials[1].point["kind"] = true;
  const nlohmann::json page = report_data(data);
  CHECK(page["trials"][0]["v"] == nlohmann::json({nullptr, "null"}));
  CHECK(page["trials"][1]["v"] == nlohmann::json({0.1, "true"}));
  CHECK(page["parameters"][1]["values"] == nlohmann::json({"a", "b", "[1,2]"}));
}

TEST_CASE(
    "report_data() counts the states, names the best trial, and lists the metrics other than the objective") {
  ReportData data = sample_data(5);
  data.trials[4].state = TrialState::failed;
  data.trials[4].failure = "out of memory";
  const nlohmann::json page = report_data(data);
  CHECK(page["states"] == nlohmann::json({{"Succeeded", 4}, {"Failed", 1}}));
  CHECK(page["best"] == 3);
  CHECK(page["metrics"] == nlohmann::json({"loss"}));
  CHECK(page["trials"][2]["m"] == nlohmann::json({1}));
  CHECK(page["trials"][4]["f"] == "out of memory");
  CHECK(page["curves"].size() == 5);
  CHECK(page["notes"].empty());
  CHECK(page["importance"]["reason"] == "only 4 trials succeeded with a value; this needs 12");
}

TEST_CASE("report_data() gives a trial a duration if it has started") {
  ReportData data = sample_data(4);
  data.made = mlk::later(mlk::Time{}, 70);
  data.trials[0] = timed(0, {}, 40);
  data.trials[1] = timed(1, {}, 0, TrialState::running);
  data.trials[2].state = TrialState::waiting;
  data.trials[3].started = mlk::later(mlk::Time{}, 90);
  data.trials[3].ended = mlk::Time{};  // the clocks of machines differ
  const nlohmann::json page = report_data(data);
  CHECK(page["trials"][0]["d"] == 40);
  CHECK(page["trials"][1]["d"] == 70);
  CHECK_FALSE(page["trials"][2].contains("d"));
  CHECK(page["trials"][3]["d"] == 0);
}

TEST_CASE("report_data() leaves out what exceeds its limits, and says what is missing") {
  ReportData data = sample_data(300);
  for (int i = 0; i < 500; ++i) data.trials[0].curve.emplace_back(10 + i, i == 250 ? not_a_number : i);
  const nlohmann::json page =
      report_data(data, {.rows = 100, .drawn = 30, .curves = 20, .points = 10, .parameters = 1});
  CHECK(page["trials"].size() == 100);
  CHECK(page["drawn"].size() == 30);
  CHECK(page["curves"].size() == 20);
  CHECK(page["curvesOf"] == 100);
  CHECK(page["parameters"].size() == 1);
  CHECK(page["trials"][0]["v"].size() == 1);
  CHECK(page["trials"][page["best"].get<std::size_t>()]["n"] == 299);
  CHECK(page["states"]["Succeeded"] == 300);
  CHECK(says(page, "trials in the table, the best ones and an even sample: 100 of 300"));
  CHECK(says(page, "learning curves"));
  CHECK(says(page, "parameters, the first ones: 1 of 2"));
  const nlohmann::json all = report_data(data, {.points = 10});
  const nlohmann::json& points = all["curves"][0]["points"];
  CHECK(points.size() == 10);
  CHECK(points.front() == nlohmann::json({1, 0.0}));
  CHECK(points.back() == nlohmann::json({509, 499.0}));
}

TEST_CASE("report_data() leaves out metrics first, and then rows, if the report would be too large") {
  const ReportData data = sample_data(500);
  ReportBounds bounds;
  const std::size_t whole = script_json(report_data(data, bounds)).size();
  bounds.bytes = whole - 1;
  const nlohmann::json without_metrics = report_data(data, bounds);
  CHECK(without_metrics["metrics"].empty());
  CHECK(without_metrics["trials"].size() == 500);
  CHECK(says(without_metrics, "metrics in the table, the most frequent ones: 0 of 1"));
  bounds.bytes = 20'000;
  const nlohmann::json small = report_data(data, bounds);
  CHECK(script_json(small).size() <= 20'000);
  CHECK(small["trials"].size() > 10);
  CHECK(says(small, "trials in the table"));
  bounds.bytes = 1;  // impossible to reach, but report_data() still returns
  CHECK(report_data(data, bounds)["trials"].empty());
}

TEST_CASE("report_data() cuts long names, values and failure reasons") {
  ReportData data = sample_data(1);
  const std::string longest(5000, 'x');
  data.title = data.description = data.version = data.name_space = longest;
  data.space.parameters[0].path = longest;
  data.trials[0].point[longest] = longest;
  data.trials[0].failure = longest;
  data.trials[0].hash = longest;
  CHECK(script_json(report_data(data)).size() < 5000);
}

TEST_CASE("script_json() writes no character that could end the script element of the page") {
  const nlohmann::json value = {
      "</script><script>alert(1)</script>",     "<!-- <script>", "-->", "]]>", "&amp;",
      "line\xe2\x80\xa8separators\xe2\x80\xa9", "\"\\\x01",      "\xff"};
  const std::string text = script_json(value);
  for (const char* bad : {"<", ">", "&", "\xe2\x80\xa8", "\xe2\x80\xa9", "\x01", "\n"})
    CHECK(text.find(bad) == std::string::npos);
  const nlohmann::json back = mlk::parse_json(text, "the data");
  for (std::size_t i = 0; i < 7; ++i) CHECK(back[i] == value[i]);
}
