#include "sweeps/decide.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

using namespace mlk;
using namespace mlk::sweeps;

namespace {

Spec three_at_a_time() {
  Spec spec;
  spec.parallel = 3;
  return spec;
}

std::vector<Point> numbered_points(int count) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) points.push_back({{"lr", i}});
  return points;
}

Trial trial_of(int number, TrialState state, std::optional<double> objective = {}) {
  Trial trial;
  trial.number = number;
  trial.point = {{"lr", number}};
  trial.hash = hash_of(trial.point);
  trial.state = state;
  trial.objective = objective;
  return trial;
}

Spec tpe_spec(int trials) {
  Spec spec;
  spec.search = {Search::Kind::tpe, trials, 5};
  spec.objective = Objective{};
  spec.space.parameters.push_back({"x", Parameter::Kind::uniform, {}, -1, 1, {}});
  return spec;
}

}  // namespace

TEST_CASE("trials are started in the order of the points, as many as may go on") {
  const NextStep first = decide(three_at_a_time(), numbered_points(5), {}, 3);
  CHECK(first.start == numbered_points(3));
  CHECK_FALSE(first.ended);
  const NextStep later = decide(three_at_a_time(), numbered_points(5),
                                {trial_of(0, TrialState::succeeded), trial_of(1, TrialState::running),
                                 trial_of(2, TrialState::waiting)},
                                3);
  CHECK(later.start == std::vector<Point>{{{"lr", 3}}});
}

TEST_CASE("a sweep has ended when every point has a trial and none goes on") {
  const std::vector<Trial> ended{trial_of(0, TrialState::succeeded), trial_of(1, TrialState::failed)};
  CHECK(decide(three_at_a_time(), numbered_points(2), ended, 3).ended);
  CHECK_FALSE(decide(three_at_a_time(), numbered_points(3), ended, 3).ended);
  CHECK_FALSE(
      decide(three_at_a_time(), numbered_points(2), {ended[0], trial_of(1, TrialState::running)}, 3).ended);
}

TEST_CASE("when more trials have failed than may, nothing more is started") {
  const std::vector<Trial> failed{trial_of(0, TrialState::failed), trial_of(1, TrialState::failed)};
  CHECK(decide(three_at_a_time(), numbered_points(5), failed, 1).hopeless);
  CHECK(decide(three_at_a_time(), numbered_points(5), failed, 1).start.empty());
  CHECK_FALSE(decide(three_at_a_time(), numbered_points(5), failed, 2).hopeless);
}

TEST_CASE("search tpe gives distinct points, as many as were asked for, and the same ones to every driver") {
  Spec spec = tpe_spec(6);
  spec.parallel = 4;
  const NextStep first = decide(spec, {}, {}, 3);
  REQUIRE(first.start.size() == 4);
  CHECK(decide(spec, {}, {}, 3).start == first.start);
  CHECK(std::set<Point>(first.start.begin(), first.start.end()).size() == 4);
  CHECK(suggest(spec, {}) == first.start[0]);
  std::vector<Trial> trials;
  for (const Point& point : first.start) {
    trials.push_back(trial_of(static_cast<int>(trials.size()), TrialState::succeeded, 1.0));
    trials.back().point = point;
  }
  const NextStep second = decide(spec, {}, trials, 3);
  CHECK(second.start.size() == 2);  // six in all
  for (const Point& point : second.start) {
    trials.push_back(trial_of(static_cast<int>(trials.size()), TrialState::failed));
    trials.back().point = point;
  }
  CHECK(decide(spec, {}, trials, 3).ended);
}

TEST_CASE("search tpe comes near the best value that it is told of") {
  Spec spec = tpe_spec(40);
  spec.parallel = 1;
  std::vector<Trial> trials;
  double best = 10;
  for (NextStep next = decide(spec, {}, trials, 3); !next.ended; next = decide(spec, {}, trials, 3)) {
    REQUIRE(next.start.size() == 1);
    const double x = next.start[0].at("x").get<double>(), value = (x - 0.3) * (x - 0.3);
    trials.push_back(trial_of(static_cast<int>(trials.size()), TrialState::succeeded, value));
    trials.back().point = next.start[0];
    best = std::min(best, value);
  }
  CHECK(trials.size() == 40);
  CHECK(best < 1e-4);
}

TEST_CASE("trials that do badly are stopped, by the rule of the sweep") {
  Spec spec = three_at_a_time();
  spec.objective.emplace().goal = Objective::Goal::maximize;
  std::vector<Trial> trials{trial_of(0, TrialState::succeeded), trial_of(1, TrialState::succeeded),
                            trial_of(2, TrialState::succeeded), trial_of(3, TrialState::running)};
  for (int i = 0; i < 3; ++i) trials[static_cast<std::size_t>(i)].curve = {{10, 0.8}, {20, 0.9}};
  trials[3].curve = {{10, 0.1}};
  CHECK(decide(spec, {}, trials, 3).stop.empty());
  spec.stop.rule = EarlyStop::Rule::median;
  CHECK(decide(spec, {}, trials, 3).stop == std::vector<int>{3});
  spec.stop.rule = EarlyStop::Rule::asha;
  spec.stop.asha = {.min = 10, .max = 40, .factor = 2};
  CHECK(decide(spec, {}, trials, 3).stop == std::vector<int>{3});
  trials[3].curve = {{10, 0.99}};
  CHECK(decide(spec, {}, trials, 3).stop.empty());
}
