// Tests the data of a report's page, key by key.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "sweeps/results/report_data.h"

TEST_SUITE_BEGIN("sweeps/results/report_page");

using namespace mlk::sweeps;
using nlohmann::json;

namespace {

Trial page_trial(int number, std::optional<double> value) {
  Trial trial;
  trial.number = number;
  trial.state = TrialState::succeeded;
  trial.objective = value;
  return trial;
}

ReportData page_data() {
  ReportData data;
  data.title = "digits-abcde";
  data.name_space = "team";
  data.description = "single, grid";
  data.version = "1.2.3";
  data.made = mlk::later(mlk::Time{}, 90);
  data.objective.metric = "acc";
  data.objective.goal = Objective::Goal::maximize;
  return data;
}

// The values at the key `inner` in all entries of a list.
json each_of(const json& list, const char* inner) {
  json out = json::array();
  for (const json& entry : list) out.push_back(entry.contains(inner) ? entry[inner] : json());
  return out;
}

}  // namespace

TEST_CASE("the data of a report names the sweep, the namespace and the objective") {
  ReportData data = page_data();
  json page = report_data(data);
  CHECK(page["title"] == "digits-abcde");
  CHECK(page["namespace"] == "team");
  CHECK(page["description"] == "single, grid");
  CHECK(page["version"] == "1.2.3");
  CHECK(page["made"] == "1970-01-01T00:01:30Z");
  CHECK(page["madeSeconds"] == 90);
  CHECK(page["metric"] == "acc");
  CHECK(page["goal"] == "maximize");
  CHECK(page["of"] == "the last value");
  CHECK(page["best"].is_null());
  data.objective.goal = Objective::Goal::minimize;
  data.objective.of = Objective::Of::best;
  CHECK(report_data(data)["goal"] == "minimize");
  CHECK(report_data(data)["of"] == "the best value");
  data.objective.of = Objective::Of::mean;
  data.objective.count = 7;
  CHECK(report_data(data)["of"] == "the mean of the last 7 values");
}

TEST_CASE("report_data() describes each parameter by its kind, its values and its conditions") {
  ReportData data = page_data();
  using Kind = Parameter::Kind;
  std::vector<json> many;
  for (int i = 0; i < 150; ++i) many.emplace_back(i);
  data.space.parameters = {{"a", Kind::choice, many, 0, 0, {}},
                           {"b", Kind::uniform, {}, 0, 1, {{"a", {1}}}},
                           {"c", Kind::log_uniform, {}, 1, 2, {}},
                           {"d", Kind::integer, {}, 1, 2, {}},
                           {"e", Kind::log_integer, {}, 1, 2, {}}};
  const json parameters = report_data(data)["parameters"];
  CHECK(each_of(parameters, "path") == json{"a", "b", "c", "d", "e"});
  CHECK(each_of(parameters, "kind") == json{"choice", "uniform", "log", "integer", "log"});
  CHECK(each_of(parameters, "conditional") == json{false, true, false, false, false});
  CHECK(parameters[0]["values"].size() == 100);
  CHECK(parameters[0]["values"][99] == 99);
  CHECK(parameters[1]["values"].empty());
}

TEST_CASE("a row of the report has all known values of its trial") {
  ReportData data = page_data();
  Trial trial = page_trial(7, 0.5);
  trial.hash = "h7";
  trial.tries = 2;
  trial.step = 300;
  trial.started = mlk::Time{};
  trial.ended = mlk::Time{} + std::chrono::milliseconds(40260);
  trial.metrics = {{"loss", 1.5}, {"late", std::numeric_limits<double>::infinity()}, {"note", "x"}};
  data.trials = {trial, page_trial(8, std::numeric_limits<double>::infinity()), page_trial(9, {})};
  data.trials[1].state = TrialState::running;
  const json page = report_data(data), row = page["trials"][0];
  CHECK(row["n"] == 7);
  CHECK(row["h"] == "h7");
  CHECK(row["s"] == "Succeeded");
  CHECK(row["o"] == 0.5);
  CHECK(row["t"] == 2);
  CHECK(row["e"] == 300);
  CHECK(row["d"] == 40.3);
  CHECK_FALSE(row.contains("f"));
  CHECK(page["metrics"] == json{"late", "loss"});
  CHECK(row["m"] == json{nullptr, 1.5});
  CHECK(page["trials"][1]["m"] == json{nullptr, nullptr});
  CHECK(page["trials"][1]["s"] == "Running");
  CHECK(page["trials"][1]["o"].is_null());
  CHECK_FALSE(page["trials"][1].contains("d"));
  CHECK(page["states"] == json{{"Succeeded", 2}, {"Running", 1}});
}

TEST_CASE("the report has a column for each of the twelve most frequent metrics") {
  ReportData data = page_data();
  data.trials = {page_trial(0, 1), page_trial(1, 2)};
  for (int i = 10; i < 24; ++i) data.trials[0].metrics["m" + std::to_string(i)] = i;
  data.trials[1].metrics = {{"m23", 1}, {"m15", 2}, {"acc", 2}};
  const json page = report_data(data);
  CHECK(page["metrics"] ==
        json{"m15", "m23", "m10", "m11", "m12", "m13", "m14", "m16", "m17", "m18", "m19", "m20"});
  CHECK(page["notes"] == json{"metrics in the table, the most frequent ones: 12 of 14"});
}

TEST_CASE("charts show trials that have a value of the objective, and curves show trials with reports") {
  ReportData data = page_data();
  data.trials = {page_trial(0, {}), page_trial(1, 0.5), page_trial(2, 0.9), page_trial(3, {})};
  data.trials[2].curve = {{1, 0.1}, {2, 0.2}, {3, 0.9}};
  data.trials[3].curve = {{5, 0.3}};
  json page = report_data(data);
  CHECK(page["drawn"] == json{1, 2});
  CHECK(page["drawnOf"] == 2);
  CHECK(each_of(page["curves"], "row") == json{2, 3});
  CHECK(page["curvesOf"] == 2);
  CHECK(page["curves"][0]["points"] == json::parse("[[1, 0.1], [2, 0.2], [3, 0.9]]"));
  CHECK(page["best"] == 2);
  page = report_data(data, {.drawn = 1, .curves = 1, .points = 1});
  CHECK(page["drawn"] == json{2});
  CHECK(each_of(page["curves"], "row") == json{2});
  CHECK(page["curves"][0]["points"] == json::parse("[[3, 0.9]]"));
  CHECK(page["notes"] ==
        json{"learning curves, the best ones and an even sample: 1 of 2",
             "trials in charts of the parameters, the best ones and an even sample: 1 of 2"});
}

TEST_CASE("the report lists the times of trials by the counts of workers and nodes") {
  ReportData data = page_data();
  data.space.parameters = {{"workers.count", Parameter::Kind::choice, {1, 2}, 0, 0, {}},
                           {"nodes", Parameter::Kind::choice, {1, 2}, 0, 0, {{"workers.count", {2}}}}};
  const auto add = [&](const Point& point, int seconds) {
    Trial trial = page_trial(static_cast<int>(data.trials.size()), 1);
    trial.point = point;
    trial.started = mlk::Time{};
    trial.ended = mlk::later(mlk::Time{}, seconds);
    data.trials.push_back(trial);
  };
  add({{"workers.count", 1}}, 100);
  add({{"workers.count", 1}}, 40);
  add({{"workers.count", 1}}, 60);
  add({{"workers.count", 2}, {"nodes", 2}}, 30);
  const json times = report_data(data)["times"];
  CHECK(times["paths"] == json{"workers.count", "nodes"});
  REQUIRE(times["rows"].size() == 2);
  CHECK(times["rows"][0] == json{{"counts", {1, nullptr}},
                                 {"trials", 3},
                                 {"shortest", 40},
                                 {"median", 60},
                                 {"longest", 100},
                                 {"speedup", 1}});
  CHECK(times["rows"][1]["counts"] == json{2, 2});
  CHECK(times["rows"][1]["speedup"] == 2);
  CHECK(report_data(data, {.drawn = 1})["times"]["rows"].size() == 1);
}

TEST_CASE("the report has the importance of the parameters, with a limited number of effects") {
  ReportData data = page_data();
  for (const char* path : {"a", "b", "c"})
    data.space.parameters.push_back({path, Parameter::Kind::uniform, {}, 0, 1, {}});
  for (int i = 0; i < 40; ++i) {
    Trial trial = page_trial(i, i % 7);
    trial.point = {{"a", (i % 7) / 7.0}, {"b", (i % 5) / 5.0}, {"c", (i % 3) / 3.0}};
    data.trials.push_back(trial);
  }
  const json whole = report_data(data)["importance"];
  CHECK(whole["trials"] == 40);
  CHECK(whole["reason"] == "");
  CHECK(whole["fit"].get<double>() > 0.5);
  REQUIRE(whole["effects"].size() >= 3);
  CHECK(whole["effects"][0]["path"] == "a");
  CHECK(whole["effects"][0]["with"] == "");
  CHECK(whole["effects"][0]["share"].get<double>() > 0.8);
  CHECK(report_data(data, {.parameters = 2})["importance"]["effects"].size() == 2);
}

TEST_CASE("the report cuts a text that is too long, and marks the cut") {
  ReportData data = page_data();
  data.title = std::string(200, 'x');
  data.description = std::string(500, 'y');
  CHECK(report_data(data)["title"] == data.title);
  CHECK(report_data(data)["description"] == data.description);
  data.title += "x";
  data.description += "y";
  CHECK(report_data(data)["title"] == std::string(200, 'x') + "…");
  CHECK(report_data(data)["description"] == std::string(500, 'y') + "…");
  data.trials = {page_trial(0, 1)};
  data.trials[0].failure = std::string(501, 'z');
  CHECK(report_data(data)["trials"][0]["f"] == std::string(500, 'z') + "…");
}

TEST_CASE("a value of a point becomes text in the report if JSON has no such number") {
  ReportData data = page_data();
  data.space.parameters = {{"a", Parameter::Kind::uniform, {}, 0, 1, {}}};
  data.trials = {page_trial(0, 1)};
  data.trials[0].point["a"] = std::nan("");
  CHECK(report_data(data)["trials"][0]["v"][0].is_string());
}

TEST_CASE("count_paths() leaves out a count with one value, and a parameter that is not a count") {
  Space space;
  space.parameters = {{"workers", Parameter::Kind::integer, {}, 1, 2, {}},
                      {"servers.count", Parameter::Kind::integer, {}, 2, 2, {}},
                      {"x.nodes", Parameter::Kind::choice, {1, 2}, 0, 0, {}},
                      {"count.x", Parameter::Kind::choice, {1, 2}, 0, 0, {}}};
  CHECK(count_paths(space) == std::vector<std::string>{"workers", "x.nodes"});
}
