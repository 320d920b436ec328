// Tests which trials occupy the places of a sweep, and what happens to paused trials.
#include <doctest/doctest.h>

#include "sweeps/search/decide.h"

TEST_SUITE_BEGIN("sweeps/search/decide_places");

using namespace mlk;
using namespace mlk::sweeps;

namespace {

std::vector<Point> listed_points(int count) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) points.push_back({{"lr", i}});
  return points;
}

Trial placed_trial(int number, TrialState state, std::int64_t until = 0,
                   std::vector<std::pair<std::int64_t, double>> curve = {}) {
  Trial trial;
  trial.number = number;
  trial.point = {{"lr", number}};
  trial.hash = hash_of(trial.point);
  trial.state = state;
  trial.until = until;
  trial.curve = std::move(curve);
  return trial;
}

// Rungs 10, 20 and 40; two places; smaller values are better.
Spec two_places(bool resumes) {
  Spec spec;
  spec.parallel = 2;
  spec.objective = Objective{};
  spec.stop.rule = EarlyStop::Rule::asha;
  spec.stop.asha = {.min = 10, .max = 40, .factor = 2};
  spec.stop.resumes = resumes;
  return spec;
}

using Act = Decision::Kind;
using Acts = std::vector<Decision>;

}  // namespace

TEST_CASE("decide() starts a point once, even if it is listed twice, and not at all if it has a trial") {
  Spec spec;
  spec.parallel = 9;
  std::vector<Point> points = listed_points(3);
  points.insert(points.begin() + 1, points[0]);
  CHECK(decide(spec, points, {}, 3).start == listed_points(3));
  Trial other = placed_trial(1, TrialState::stopped);
  other.number = 0;
  CHECK(decide(spec, points, {other}, 3).start == std::vector<Point>{points[0], points[3]});
}

TEST_CASE("a waiting trial occupies a place, but not if it is paused at its rung") {
  const std::vector<Trial> at_rung{placed_trial(0, TrialState::waiting, 10, {{10, 0.5}}),
                                   placed_trial(1, TrialState::running, 10)};
  CHECK(decide(two_places(true), listed_points(4), at_rung, 3).start.size() == 1);
  CHECK(decide(two_places(false), listed_points(4), at_rung, 3).start.empty());
  for (const Trial& first :
       {placed_trial(0, TrialState::waiting), placed_trial(0, TrialState::waiting, 20, {{10, 0.5}}),
        placed_trial(0, TrialState::waiting, 20), placed_trial(0, TrialState::running, 10, {{9, 0.5}})})
    CHECK(decide(two_places(true), listed_points(4), {first, at_rung[1]}, 3).start.empty());
  for (const TrialState ended : {TrialState::succeeded, TrialState::failed, TrialState::stopped})
    CHECK(decide(two_places(true), listed_points(4), {placed_trial(0, ended, 10), at_rung[1]}, 3)
              .start.size() == 1);
}

TEST_CASE("a promoted trial occupies a place again before it continues") {
  const std::vector<Trial> trials{placed_trial(0, TrialState::waiting, 10, {{10, 0.5}}),
                                  placed_trial(1, TrialState::waiting, 20, {{10, 0.1}})};
  const NextStep next = decide(two_places(true), listed_points(4), trials, 3);
  CHECK(next.start == std::vector<Point>{{{"lr", 2}}});
  CHECK(next.judged.empty());
}

TEST_CASE("without_starts() neither starts nor resumes a trial in a drained sweep") {
  // The first trial is paused at its rung and is the best; the second trial has just reached the rung.
  const std::vector<Trial> trials{placed_trial(0, TrialState::waiting, 10, {{10, 0.1}}),
                                  placed_trial(1, TrialState::running, 10, {{10, 0.2}}),
                                  placed_trial(2, TrialState::succeeded, 40, {{10, 0.7}, {40, 0.6}}),
                                  placed_trial(3, TrialState::succeeded, 40, {{10, 0.9}, {40, 0.8}})};
  Spec spec = two_places(true);
  spec.parallel = 3;
  const NextStep next = decide(spec, listed_points(9), trials, 3);
  REQUIRE(next.judged == Acts{{Act::promote, 0, 20}, {Act::promote, 1, 20}});
  REQUIRE(next.start.size() == 1);
  const NextStep drained = without_starts(next, trials);
  CHECK(drained.start.empty());
  CHECK(drained.judged == Acts{{Act::promote, 1, 20}});
  CHECK_FALSE(drained.ended);  // some points have no trial yet
  CHECK_FALSE(drained.hopeless);
}

TEST_CASE("decide() judges no trial if too many have failed and one still runs") {
  const std::vector<Trial> trials{placed_trial(0, TrialState::failed),
                                  placed_trial(1, TrialState::waiting, 10, {{10, 0.5}}),
                                  placed_trial(2, TrialState::running, 10, {{10, 0.4}})};
  const NextStep next = decide(two_places(true), listed_points(9), trials, 0);
  CHECK(next.hopeless);
  CHECK(next.judged.empty());
  CHECK(next.start.empty());
  CHECK_FALSE(next.ended);
  const std::vector<Trial> over{placed_trial(0, TrialState::failed), placed_trial(1, TrialState::stopped)};
  CHECK(decide(two_places(true), listed_points(9), over, 0).ended);
  CHECK_FALSE(decide(two_places(true), listed_points(9), over, 1).hopeless);
}

TEST_CASE("decide() stops a paused trial that cannot be promoted any more") {
  const std::vector<Trial> trials{placed_trial(0, TrialState::succeeded, 40, {{40, 0.1}}),
                                  placed_trial(1, TrialState::waiting, 10, {{10, 0.5}})};
  CHECK(decide(two_places(true), listed_points(2), trials, 3).judged == Acts{{Act::stop, 1, 10}});
  const NextStep going = decide(two_places(false), listed_points(2), trials, 3);
  CHECK(going.judged.empty());
  CHECK_FALSE(going.ended);
}

TEST_CASE("the median rule uses the values `grace` and `min_trials` of its sweep") {
  Spec spec = two_places(false);
  spec.parallel = 9;
  spec.stop.rule = EarlyStop::Rule::median;
  std::vector<Trial> trials{placed_trial(0, TrialState::succeeded, 0, {{10, 0.2}, {20, 0.1}}),
                            placed_trial(1, TrialState::succeeded, 0, {{10, 0.2}, {20, 0.1}}),
                            placed_trial(2, TrialState::running, 0, {{10, 0.9}})};
  const auto judged = [&] { return decide(spec, {}, trials, 3).judged; };
  CHECK(judged().empty());  // the median rule needs three successful trials
  spec.stop.median.min_trials = 2;
  CHECK(judged() == Acts{{Act::stop, 2, 0}});
  spec.stop.median.grace = 11;
  CHECK(judged().empty());
  spec.stop.median.grace = 10;
  spec.objective->goal = Objective::Goal::maximize;
  CHECK(judged().empty());
}

TEST_CASE("early stopping prefers smaller values if the sweep has no objective") {
  Spec spec = two_places(false);
  spec.objective.reset();
  const std::vector<Trial> trials{placed_trial(0, TrialState::running, 0, {{10, 0.9}}),
                                  placed_trial(1, TrialState::running, 0, {{10, 0.1}})};
  CHECK(decide(spec, {}, trials, 3).judged == Acts{{Act::stop, 0, 10}, {Act::promote, 1, 20}});
}
