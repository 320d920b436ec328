// Tests how search tpe uses the results of trials: which results it uses, and which results it treats alike.
#include <limits>

#include <doctest/doctest.h>

#include "sweeps/search/decide.h"
#include "sweeps/search/random.h"
#include "sweeps/search/tpe.h"
#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/tpe_told");

using namespace mlk::sweeps;
using mlk::test::integer;
using mlk::test::uniform;

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
constexpr auto down = Objective::Goal::minimize, up = Objective::Goal::maximize;

Space told_space() { return {{uniform("x", -1, 1), uniform("y", -1, 1)}, {}}; }

double told_loss(const Point& point) {
  const double x = point.at("x").get<double>() - 0.3, y = point.at("y").get<double>() + 0.5;
  return x * x + y * y;
}

std::vector<Told> told_points(std::size_t count) {
  std::vector<Told> told;
  for (const Point& point : random_points(told_space(), 4, count)) told.push_back({point, told_loss(point)});
  return told;
}

// A sweep of search tpe over told_space(). told_trials() returns trials of this sweep that have succeeded.
Spec told_spec() {
  Spec spec;
  spec.search = {Search::Kind::tpe, 99, 7};
  spec.objective = Objective{};
  spec.space = told_space();
  return spec;
}

std::vector<Trial> told_trials(std::size_t count) {
  std::vector<Trial> trials;
  for (const Told& one : told_points(count)) {
    Trial& trial = trials.emplace_back();
    trial.number = static_cast<int>(trials.size()) - 1;
    trial.point = one.point;
    trial.hash = hash_of(one.point);
    trial.state = TrialState::succeeded;
    trial.objective = one.value;
  }
  return trials;
}

}  // namespace

TEST_CASE("the search `tpe` uses random points until `startup` trials have a value") {
  const std::vector<Told> four = told_points(4);
  const auto next = [&](int startup, const std::vector<Told>& told) {
    return suggest_tpe(told_space(), down, {4, startup, {}}, told);
  };
  const Point fifth = random_points(told_space(), 4, 5)[4];
  CHECK(next(5, four) == fifth);
  CHECK(next(4, four) != fifth);
  std::vector<Told> unknown = four;
  unknown[1].value = std::numeric_limits<double>::quiet_NaN();
  CHECK(next(4, unknown) == fifth);
  unknown[1].value.reset();
  CHECK(next(4, unknown) == fifth);
  unknown = four;
  unknown[1].running = true;
  CHECK(next(4, unknown) == fifth);
  CHECK(next(0, {}) == random_points(told_space(), 4, 1)[0]);
}

TEST_CASE("`tpe` counts an infinitely bad value as a failure, and an infinitely good one as the best") {
  std::vector<Told> told = told_points(20), other = told;
  told[3].value = no_limit;
  other[3].value.reset();
  CHECK(suggest_tpe(told_space(), down, {1}, told) == suggest_tpe(told_space(), down, {1}, other));
  double least = no_limit;
  for (std::size_t i = 1; i < told.size(); ++i) least = std::min(least, told[i].value.value_or(no_limit));
  other = told;
  told[0].value = -no_limit;
  other[0].value = least;
  CHECK(suggest_tpe(told_space(), down, {1}, told) == suggest_tpe(told_space(), down, {1}, other));
  for (Told& one : told) one.value = -*one.value;
  CHECK(suggest_tpe(told_space(), up, {1}, told) == suggest_tpe(told_space(), down, {1}, other));
}

TEST_CASE("the search `tpe` finds the best of 200 points within 22 trials") {
  const Space space{{integer("n", 1, 200)}, {}};
  std::vector<Told> told;
  bool found = false;
  for (int i = 0; i < 22 && !found; ++i) {
    const auto point = suggest_tpe(space, down, {3}, told);
    REQUIRE(point);
    const double off = point->at("n").get<double>() - 137;
    told.push_back({*point, off * off});
    found = off == 0;
  }
  CHECK(found);
}

TEST_CASE("suggest() uses the seed, the goal and the start points of the sweep") {
  Spec spec = told_spec();
  std::vector<Trial> trials = told_trials(15);
  const auto plain = suggest(spec, trials);
  TpeOptions options;
  options.seed = 7;
  CHECK(plain == suggest_tpe(told_space(), down, options, told_points(15)));
  Spec other = spec;
  other.search.seed = 8;
  CHECK(suggest(other, trials) != plain);
  other = spec;
  const Point start{{"x", 0.125}, {"y", 0.25}};
  other.search.start = {start};
  CHECK(suggest(other, trials) == start);
  other = spec;
  other.objective->goal = up;
  CHECK(suggest(other, trials) != plain);
  for (Trial& trial : trials) trial.objective = -*trial.objective;
  CHECK(suggest(other, trials) == plain);
}

TEST_CASE("suggest() uses the value of a stopped or paused trial, and counts a failed trial as the worst") {
  const Spec spec = told_spec();
  const std::vector<Trial> trials = told_trials(15);
  const auto with = [&](TrialState state, std::int64_t until, std::optional<double> value) {
    std::vector<Trial> changed = trials;
    changed[6].state = state;
    changed[6].until = until;
    changed[6].objective = value;
    return suggest(spec, changed);
  };
  const auto plain = suggest(spec, trials);
  const std::optional<double> value = trials[6].objective;
  CHECK(with(TrialState::stopped, 0, value) == plain);
  CHECK(with(TrialState::waiting, 10, value) == plain);  // paused at its rung
  const auto as_told = [&](std::optional<double> told_value, bool running) {
    std::vector<Told> told = told_points(15);
    told[6].value = told_value;
    told[6].running = running;
    TpeOptions options;
    options.seed = 7;
    return suggest_tpe(told_space(), down, options, told);
  };
  CHECK(as_told({}, false) != plain);
  CHECK(as_told({}, true) != plain);
  CHECK(as_told({}, true) != as_told({}, false));
  CHECK(with(TrialState::failed, 0, -100) == as_told({}, false));
  CHECK(with(TrialState::succeeded, 0, {}) == as_told({}, false));
  CHECK(with(TrialState::running, 10, -100) == as_told({}, true));
  CHECK(with(TrialState::waiting, 0, value) == as_told({}, true));
  CHECK(with(TrialState::waiting, 10, {}) == as_told({}, true));
}

TEST_CASE("the search `tpe` ends when it has enough trials, or when its space has no more points") {
  Spec spec = told_spec();
  spec.space = {{integer("n", 1, 2)}, {}};
  spec.parallel = 9;
  NextStep next = decide(spec, {}, {}, 3);
  CHECK(next.start.size() == 2);
  std::vector<Trial> trials(2);
  for (std::size_t i = 0; i < 2; ++i) {
    trials[i].number = static_cast<int>(i);
    trials[i].point = next.start[i];
    trials[i].state = TrialState::succeeded;
    trials[i].objective = 1;
  }
  next = decide(spec, {}, trials, 3);
  CHECK(next.start.empty());
  CHECK(next.ended);
  spec.space = told_space();
  spec.search.trials = 3;
  CHECK(decide(spec, {}, trials, 3).start.size() == 1);
  spec.search.trials = 2;
  CHECK(decide(spec, {}, trials, 3).ended);
}
