#include "sweeps/trials/plain_runs.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("sweeps/trials/plain_runs");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

RunStatus plain_run(const std::string& name, double lr, int age, const json& metrics) {
  RunStatus run;
  run.run = name;
  run.phase = Phase::succeeded;
  run.created = Time{} + std::chrono::seconds(100 - age);
  run.experiment = {{"name", "x"},
                    {"note", name},
                    {"roles", {{"worker", {{"count", 2}, {"cpu", lr > 0.5 ? "2" : "1"}}}}},
                    {"train", {{"optimizer", {{"lr", lr}}}, {"steps", 10}}}};
  run.result = {{"step", 10}, {"metrics", metrics}};
  return run;
}

}  // namespace

TEST_CASE(
    "trials_of() makes a trial of each run, and a parameter of each value that differs between the runs") {
  const std::vector<RunStatus> runs{plain_run("x-b", 0.1, 1, {{"accuracy", 0.8}}),
                                    plain_run("x-a", 0.9, 9, {{"accuracy", 0.7}})};
  const Objective objective = usual_objective(runs);
  CHECK(objective.goal == Objective::Goal::maximize);
  CHECK(objective.metric == "accuracy");
  const std::vector<Trial> trials = trials_of(runs, objective);
  REQUIRE(trials.size() == 2);
  CHECK(trials[0].point == Point{{"run", "x-a"}, {"train.optimizer.lr", 0.9}, {"workers.cpu", "2"}});
  CHECK(trials[1].point == Point{{"run", "x-b"}, {"train.optimizer.lr", 0.1}, {"workers.cpu", "1"}});
  CHECK(trials[0].number == 0);
  CHECK(trials[0].objective == 0.7);
  CHECK(trials[1].state == TrialState::succeeded);
}

TEST_CASE(
    "trials_of() adds the parameter `run` with the run's name, and `program` if runs differ in `run:`") {
  std::vector<RunStatus> runs{plain_run("x-b", 0.1, 1, {{"loss", 2}}),
                              plain_run("x-a", 0.1, 9, {{"loss", 1}})};
  runs[0].experiment["run"] = "python3 b.py";
  runs[1].experiment["run"] = json::array({"python3", "a.py"});
  const std::vector<Trial> trials = trials_of(runs, usual_objective(runs));
  CHECK(trials[0].point == Point{{"run", "x-a"}, {"program", json::array({"python3", "a.py"})}});
  CHECK(trials[1].point == Point{{"run", "x-b"}, {"program", "python3 b.py"}});
}

TEST_CASE("usual_objective() minimizes the loss if no run has reported its accuracy") {
  CHECK(usual_objective({plain_run("x-a", 1, 1, {{"loss", 2}})}).metric == "loss");
  CHECK(usual_objective({}).goal == Objective::Goal::minimize);
  CHECK(trials_of({}, {}).empty());
}

TEST_CASE("trials_of() sorts runs by age, and by name if the age is the same") {
  const std::vector<Trial> trials = trials_of({plain_run("x-c", 0.1, 5, {}), plain_run("x-b", 0.1, 5, {}),
                                               plain_run("x-a", 0.1, 1, {}), plain_run("x-d", 0.1, 9, {})},
                                              {});
  std::string order;
  for (const Trial& trial : trials) {
    CHECK(trial.number == static_cast<int>(order.size() / 4));
    order += trial.point.at("run").get<std::string>() + " ";
  }
  CHECK(order == "x-d x-b x-c x-a ");
  CHECK(trials[0].point.size() == 1);  // the experiments do not differ
  CHECK(trials[0].hash == hash_of(trials[0].point));
  CHECK(trials[0].hash != trials[1].hash);
}

TEST_CASE("a value becomes a parameter if some runs have it and others do not") {
  std::vector<RunStatus> runs{plain_run("x-a", 0.1, 9, {}), plain_run("x-b", 0.1, 5, {}),
                              plain_run("x-c", 0.1, 1, {})};
  runs[1].experiment["seed"] = 3;
  runs[0].experiment["train"]["epochs"] = 2;
  runs[2].experiment = "unreadable";
  const std::vector<Trial> trials = trials_of(runs, {});
  CHECK(trials[0].point.count("seed") == 0);
  CHECK(trials[1].point.at("seed") == 3);
  CHECK(trials[0].point.at("train.epochs") == 2);
  CHECK(trials[1].point.count("train.epochs") == 0);
  CHECK(trials[2].point == Point{{"run", "x-c"}});
}

TEST_CASE("parameters_of() returns all values of a run's experiment except `name`, `tags` and `note`") {
  RunStatus run = plain_run("x-a", 0.25, 1, {});
  run.experiment["tags"] = {"a"};
  const Point point = parameters_of(run);
  CHECK(point.at("train.optimizer.lr") == 0.25);
  CHECK(point.at("train.steps") == 10);
  for (const char* key : {"name", "note", "tags"}) CHECK(point.count(key) == 0);
  run.experiment = nullptr;
  CHECK(parameters_of(run).empty());
}

TEST_CASE("usual_objective() chooses the accuracy if any run has reported a number as its accuracy") {
  const std::vector<RunStatus> runs{plain_run("x-a", 1, 1, {{"loss", 2}}),
                                    plain_run("x-b", 1, 1, {{"accuracy", 0.5}})};
  CHECK(usual_objective(runs).metric == "accuracy");
  CHECK(usual_objective({plain_run("x-a", 1, 1, {{"accuracy", "nan"}})}).metric == "loss");
}
