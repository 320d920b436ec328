#include "sweeps/search/decide.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("sweeps/search/decide");

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

std::vector<int> stopped_by(const Spec& spec, const std::vector<Trial>& trials) {
  std::vector<int> numbers;
  for (const Decision& decision : decide(spec, {}, trials, 3).judged) {
    if (decision.kind == Decision::Kind::stop) numbers.push_back(decision.number);
  }
  return numbers;
}

}  // namespace

TEST_CASE("decide() starts trials in the order of the points, and at most `parallel` at a time") {
  const NextStep first = decide(three_at_a_time(), numbered_points(5), {}, 3);
  CHECK(first.start == numbered_points(3));
  CHECK_FALSE(first.ended);
  const NextStep later = decide(three_at_a_time(), numbered_points(5),
                                {trial_of(0, TrialState::succeeded), trial_of(1, TrialState::running),
                                 trial_of(2, TrialState::waiting)},
                                3);
  CHECK(later.start == std::vector<Point>{{{"lr", 3}}});
}

TEST_CASE("a sweep has ended when every point has a trial and every trial has ended") {
  const std::vector<Trial> ended{trial_of(0, TrialState::succeeded), trial_of(1, TrialState::failed)};
  CHECK(decide(three_at_a_time(), numbered_points(2), ended, 3).ended);
  CHECK_FALSE(decide(three_at_a_time(), numbered_points(3), ended, 3).ended);
  CHECK_FALSE(
      decide(three_at_a_time(), numbered_points(2), {ended[0], trial_of(1, TrialState::running)}, 3).ended);
}

TEST_CASE("decide() starts no further trial if too many trials have failed") {
  const std::vector<Trial> failed{trial_of(0, TrialState::failed), trial_of(1, TrialState::failed)};
  CHECK(decide(three_at_a_time(), numbered_points(5), failed, 1).hopeless);
  CHECK(decide(three_at_a_time(), numbered_points(5), failed, 1).start.empty());
  CHECK_FALSE(decide(three_at_a_time(), numbered_points(5), failed, 2).hopeless);
}

TEST_CASE("the search `tpe` chooses different points for all trials, and the same ones in each driver") {
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
  CHECK(second.start.size() == 2);  // six trials in all
  for (const Point& point : second.start) {
    trials.push_back(trial_of(static_cast<int>(trials.size()), TrialState::failed));
    trials.back().point = point;
  }
  CHECK(decide(spec, {}, trials, 3).ended);
}

TEST_CASE("the search `tpe` comes close to the minimum of a function within forty trials") {
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

TEST_CASE("decide() stops trials with bad values by the rule of the sweep") {
  Spec spec = three_at_a_time();
  spec.objective.emplace().goal = Objective::Goal::maximize;
  std::vector<Trial> trials{trial_of(0, TrialState::succeeded), trial_of(1, TrialState::succeeded),
                            trial_of(2, TrialState::succeeded), trial_of(3, TrialState::running)};
  for (int i = 0; i < 3; ++i) trials[static_cast<std::size_t>(i)].curve = {{10, 0.8}, {20, 0.9}};
  trials[3].curve = {{10, 0.1}};
  CHECK(stopped_by(spec, trials).empty());
  spec.stop.rule = EarlyStop::Rule::median;
  CHECK(stopped_by(spec, trials) == std::vector<int>{3});
  spec.stop.rule = EarlyStop::Rule::asha;
  spec.stop.asha = {.min = 10, .max = 40, .factor = 2};
  CHECK(stopped_by(spec, trials) == std::vector<int>{3});
  trials[3].curve = {{10, 0.99}};
  CHECK(stopped_by(spec, trials).empty());
}

namespace {

// Rungs 10, 20 and 40; two places; larger values are better.
Spec pausing() {
  Spec spec;
  spec.parallel = 2;
  spec.objective.emplace().goal = Objective::Goal::maximize;
  spec.stop.rule = EarlyStop::Rule::asha;
  spec.stop.asha = {.min = 10, .max = 40, .factor = 2};
  spec.stop.resumes = true;
  return spec;
}

Trial at_rung(int number, TrialState state, std::int64_t until, double value) {
  Trial trial = trial_of(number, state);
  trial.until = until;
  for (std::int64_t step = 10; step <= until; step *= 2) trial.curve.emplace_back(step, value);
  return trial;
}

using Kind = Decision::Kind;

}  // namespace

TEST_CASE("a trial with checkpoints is paused at its rung, and another trial takes its place") {
  const std::vector<Point> points = numbered_points(3);
  Trial first = trial_of(0, TrialState::running);
  CHECK(decide(pausing(), points, {first, trial_of(1, TrialState::running)}, 3).judged.empty());
  first.curve = {{10, 0.5}};  // the trial has reached the first rung, whether or not its limit was stored
  CHECK(decide(pausing(), points, {first, trial_of(1, TrialState::running)}, 3).judged ==
        std::vector<Decision>{{Kind::pause, 0, 10}});
  const NextStep next = decide(
      pausing(), points, {at_rung(0, TrialState::waiting, 10, 0.5), trial_of(1, TrialState::running)}, 3);
  CHECK(next.judged.empty());
  CHECK(next.start == std::vector<Point>{points[2]});
  CHECK_FALSE(next.ended);
}

TEST_CASE("a promoted trial gets a free place before a new trial") {
  const std::vector<Trial> trials{at_rung(0, TrialState::waiting, 10, 0.5),
                                  at_rung(1, TrialState::waiting, 10, 0.9)};
  const NextStep next = decide(pausing(), numbered_points(4), trials, 3);
  CHECK(next.judged == std::vector<Decision>{{Kind::promote, 1, 20}});
  CHECK(next.start == std::vector<Point>{{{"lr", 2}}});
  std::vector<Trial> promoted = trials;
  promoted[1].until = 20;  // the limit is stored, but the trial does not run yet
  CHECK(decide(pausing(), numbered_points(2), promoted, 3).judged.empty());
  CHECK_FALSE(decide(pausing(), numbered_points(2), promoted, 3).ended);
}

TEST_CASE("decide() stops the paused trials when none of them can be promoted any more") {
  std::vector<Trial> trials{at_rung(0, TrialState::waiting, 10, 0.5),
                            at_rung(1, TrialState::succeeded, 40, 0.9)};
  const NextStep last = decide(pausing(), numbered_points(2), trials, 3);
  CHECK(last.judged == std::vector<Decision>{{Kind::stop, 0, 10}});
  CHECK_FALSE(last.ended);
  trials[0].state = TrialState::stopped;
  CHECK(decide(pausing(), numbered_points(2), trials, 3).ended);
}

TEST_CASE("decide() stops the paused trials for good if too many trials have failed") {
  const std::vector<Trial> trials{at_rung(0, TrialState::waiting, 10, 0.5), trial_of(1, TrialState::failed)};
  const NextStep next = decide(pausing(), numbered_points(9), trials, 0);
  CHECK(next.hopeless);
  CHECK(next.judged == std::vector<Decision>{{Kind::stop, 0, 10}});
}

TEST_CASE("a trial without checkpoints is judged once at each rung") {
  Spec spec = pausing();
  spec.stop.resumes = false;
  std::vector<Trial> trials{trial_of(0, TrialState::running), trial_of(1, TrialState::running)};
  trials[0].curve = {{10, 0.5}};
  CHECK(decide(spec, {}, trials, 3).judged == std::vector<Decision>{{Kind::promote, 0, 20}});
  trials[0].until = 20;
  trials[1].curve = {{10, 0.9}};
  CHECK(decide(spec, {}, trials, 3).judged == std::vector<Decision>{{Kind::promote, 1, 20}});
}
