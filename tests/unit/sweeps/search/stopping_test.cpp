// Tests single decisions of ASHA and of the median rule. stopping_curves_test.cpp tests whole sweeps.
#include "sweeps/search/stopping.h"

#include <algorithm>
#include <limits>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/search/stopping");

namespace mlk::sweeps {
namespace {

using Kind = Decision::Kind;
using Numbers = std::vector<int>;
using Rungs = std::vector<std::int64_t>;
using Reports = std::vector<std::pair<std::int64_t, double>>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
const AshaOptions by_two{.min = 1, .max = 8, .factor = 2};  // rungs 1, 2, 4, 8

Progress trial_of(int number, TrialState state, std::int64_t until, Reports reports) {
  return {number, state, until, std::move(reports)};
}

// Trials 0, 1 ... that are paused at this rung with these values.
std::vector<Progress> paused_at(std::int64_t rung, const std::vector<double>& values) {
  std::vector<Progress> trials;
  for (const double value : values)
    trials.push_back(trial_of(static_cast<int>(trials.size()), TrialState::waiting, rung, {{rung, value}}));
  return trials;
}

std::vector<Progress> running_at(std::int64_t resource, const std::vector<double>& values) {
  std::vector<Progress> trials = paused_at(resource, values);
  for (Progress& trial : trials) trial.state = TrialState::running;
  return trials;
}

TEST_CASE("the highest rung is the length of a whole trial, and each lower rung is smaller by the factor") {
  CHECK(rungs_of({1, 64, 4}) == Rungs{1, 4, 16, 64});
  CHECK(rungs_of({1, 1000, 4}) == Rungs{3, 15, 62, 250, 1000});
  CHECK(rungs_of({4, 1000, 4}) == Rungs{15, 62, 250, 1000});
  CHECK(rungs_of({5, 5, 3}) == Rungs{5});
  CHECK(rungs_of({4, 9, 3}) == Rungs{9});
  CHECK(rungs_of({1, std::numeric_limits<std::int64_t>::max(), 2}).size() == 63);
}

TEST_CASE("ASHA refuses a `min` of 0, a `max` below `min`, and a `factor` below 2") {
  CHECK_THROWS_WITH_AS(rungs_of({0, 9, 3}), "early stopping: min must be at least 1, not 0", Error);
  CHECK_THROWS_WITH_AS(rungs_of({10, 9, 3}), "early stopping: max 9 is below min 10", Error);
  CHECK_THROWS_WITH_AS(rungs_of({1, 9, 1}), "early stopping: factor must be at least 2, not 1", Error);
}

TEST_CASE("asha_promotions() starts new trials in the free places if no trial can be promoted") {
  const std::vector<Decision> two(2, {Kind::start, -1, 1});
  CHECK(asha_promotions(by_two, Goal::minimize, {}, 2, 5) == two);
  CHECK(asha_promotions(by_two, Goal::minimize, {}, 5, 2) == two);
  CHECK(asha_promotions(by_two, Goal::minimize, paused_at(1, {0.5}), 2, 5) == two);
  CHECK(asha_promotions(by_two, Goal::minimize, {}, 0, 5).empty());
}

TEST_CASE("asha_promotions() promotes the best trials of each rung, and begins at the highest rung") {
  std::vector<Progress> trials = paused_at(1, {0.4, 0.1, 0.3, 0.2});
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 2, 5) ==
        std::vector<Decision>{{Kind::promote, 1, 2}, {Kind::promote, 3, 2}});
  CHECK(asha_promotions(by_two, Goal::maximize, trials, 2, 5) ==
        std::vector<Decision>{{Kind::promote, 0, 2}, {Kind::promote, 2, 2}});
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 1, 5) ==
        std::vector<Decision>{{Kind::promote, 1, 2}});
  trials[1] = trial_of(1, TrialState::running, 2, {{1, 0.1}});  // this trial was promoted
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 2, 5) ==
        std::vector<Decision>{{Kind::promote, 3, 2}, {Kind::start, -1, 1}});
  trials[1] = trial_of(1, TrialState::waiting, 2, {{1, 0.1}, {2, 0.3}});
  trials[3] = trial_of(3, TrialState::waiting, 2, {{1, 0.2}, {2, 0.05}});
  trials.push_back(trial_of(4, TrialState::waiting, 1, {{1, 0.01}}));
  trials.push_back(trial_of(5, TrialState::waiting, 1, {{1, 0.9}}));
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 2, 0) ==
        std::vector<Decision>{{Kind::promote, 3, 4}, {Kind::promote, 4, 2}});
}

TEST_CASE("a running trial continues at its rung if it is among the best, else it is paused") {
  std::vector<Progress> trials = running_at(1, {0.4, 0.1, 0.3});
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 0, 5) ==
        std::vector<Decision>{{Kind::promote, 1, 2}, {Kind::pause, 0, 1}, {Kind::pause, 2, 1}});
  // A trial at full length ends by itself, so there is nothing to decide.
  CHECK(asha_promotions(by_two, Goal::minimize, {trial_of(0, TrialState::running, 8, {{8, 0.1}})}, 0, 0)
            .empty());
}

TEST_CASE("the earlier of two trials with equal values is promoted") {
  CHECK(asha_promotions(by_two, Goal::minimize, paused_at(1, {0.1, 0.1}), 2, 0) ==
        std::vector<Decision>{{Kind::promote, 0, 2}});
}

TEST_CASE("a trial is never promoted if its value is not finite, but it counts at its rung") {
  CHECK(asha_promotions(by_two, Goal::maximize, paused_at(1, {not_a_number, 0.1}), 2, 0) ==
        std::vector<Decision>{{Kind::promote, 1, 2}});
  CHECK(asha_promotions(by_two, Goal::maximize, paused_at(1, {not_a_number, not_a_number}), 2, 0).empty());
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(asha_promotions(by_two, Goal::minimize, paused_at(1, {-infinity, 0.1}), 2, 0) ==
        std::vector<Decision>{{Kind::promote, 1, 2}});
}

TEST_CASE("a failed trial counts as the worst at the first rung that it did not reach") {
  std::vector<Progress> trials = paused_at(1, {0.5});
  trials.push_back(
      trial_of(1, TrialState::running, 1, {}));  // while this trial runs, the sweep has not ended
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 1, 0).empty());
  trials.push_back(trial_of(2, TrialState::failed, 1, {}));
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 1, 0) ==
        std::vector<Decision>{{Kind::promote, 0, 2}});
  // If a failed trial has passed rung 1, it counts at rung 1 with its value, and is not resumed.
  trials.back() = trial_of(2, TrialState::failed, 2, {{1, 0.1}});
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 1, 0).empty());
}

TEST_CASE("a failed trial counts at no rung above the first one that it did not reach") {
  std::vector<Progress> trials = paused_at(2, {0.5});
  trials.push_back(trial_of(1, TrialState::running, 1, {}));
  trials.push_back(trial_of(2, TrialState::failed, 1, {}));
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 1, 0).empty());
}

TEST_CASE("a trial that succeeded early counts with its last value at the rungs that it did not reach") {
  std::vector<Progress> trials = paused_at(2, {0.5});
  trials.push_back(trial_of(1, TrialState::succeeded, 8, {{1, 0.9}}));
  trials.push_back(trial_of(2, TrialState::running, 1, {}));
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 1, 0) ==
        std::vector<Decision>{{Kind::promote, 0, 4}});
  trials[1].reports = {{1, 0.1}};
  CHECK(asha_promotions(by_two, Goal::minimize, trials, 1, 0).empty());
}

TEST_CASE(
    "the value of a trial at a rung is its last report up to the rung, or else its first later report") {
  const auto promoted = [](const Reports& first, const Reports& second) {
    return asha_promotions(
               {.min = 10, .max = 20, .factor = 2}, Goal::minimize,
               {trial_of(0, TrialState::waiting, 10, first), trial_of(1, TrialState::waiting, 10, second)}, 1,
               0)
        .at(0)
        .number;
  };
  CHECK(promoted({{5, 0.1}, {10, 0.5}}, {{10, 0.4}}) == 1);
  CHECK(promoted({{9, 0.3}, {11, 0.9}}, {{10, 0.4}}) == 0);
  CHECK(promoted({{12, 0.3}, {11, 0.9}}, {{10, 0.4}}) == 1);
  CHECK(promoted({{10, 0.3}, {10, 0.5}}, {{10, 0.4}}) == 1);  // the worse of two reports counts
  CHECK(promoted({{10, not_a_number}, {9, 0.1}}, {{10, 0.4}}) == 1);
}

TEST_CASE("the best trial of the highest rung is promoted if otherwise no trial would be complete") {
  const std::vector<Decision> none, on = {{Kind::promote, 0, 16}};
  const auto decided = [&](const Progress& other, int free, int unstarted) {
    const std::vector<Progress> trials = {trial_of(0, TrialState::waiting, 4, {{4, 0.5}}), other};
    return asha_promotions({.min = 1, .max = 64, .factor = 4}, Goal::minimize, trials, free, unstarted);
  };
  CHECK(decided(trial_of(1, TrialState::waiting, 1, {{1, 0.01}}), 1, 0) == on);
  CHECK(decided(trial_of(1, TrialState::waiting, 4, {{4, 0.6}}), 2, 0) == on);
  CHECK(decided(trial_of(1, TrialState::failed, 16, {{4, 0.1}}), 1, 0) == on);
  CHECK(decided(trial_of(1, TrialState::succeeded, 64, {{64, not_a_number}}), 1, 0) == on);
  CHECK(decided(trial_of(1, TrialState::waiting, 0, {}), 1, 0) == on);  // this trial was never started
  // The best trial is not promoted if a trial can still start, reach its rung or be resumed, if a trial is
  // complete, or if no place is free.
  CHECK(decided(trial_of(1, TrialState::failed, 1, {}), 1, 1) == std::vector<Decision>{{Kind::start, -1, 1}});
  CHECK(decided(trial_of(1, TrialState::running, 1, {}), 1, 0) == none);
  CHECK(decided(trial_of(1, TrialState::waiting, 4, {{1, 0.9}}), 1, 0) == none);
  CHECK(decided(trial_of(1, TrialState::succeeded, 64, {{64, 0.9}}), 1, 0) == none);
  CHECK(decided(trial_of(1, TrialState::waiting, 1, {{1, 0.01}}), 0, 0) == none);
  CHECK(asha_promotions(by_two, Goal::minimize, paused_at(1, {not_a_number}), 1, 0) == none);
}

Numbers stopped_by(const AshaOptions& options, Goal goal, const std::vector<Progress>& trials) {
  Numbers numbers;
  for (const Decision& decision : asha_stops(options, goal, trials)) {
    if (decision.kind == Kind::stop) numbers.push_back(decision.number);
  }
  return numbers;
}

TEST_CASE("asha_stops() stops a running trial that is not among the best of its rung") {
  CHECK(asha_stops(by_two, Goal::minimize, running_at(1, {0.4, 0.1, 0.3, 0.2})) ==
        std::vector<Decision>{
            {Kind::stop, 0, 1}, {Kind::promote, 1, 2}, {Kind::stop, 2, 1}, {Kind::promote, 3, 2}});
  CHECK(stopped_by(by_two, Goal::maximize, running_at(1, {0.4, 0.1, 0.3, 0.2})) == Numbers{1, 3});
  CHECK(stopped_by(by_two, Goal::minimize, running_at(1, {0.4})).empty());
  const AshaOptions by_four{.min = 1, .max = 16, .factor = 4};
  CHECK(stopped_by(by_four, Goal::minimize, running_at(1, {0.2, 0.1, 0.3})) == Numbers{0, 2});
  CHECK(asha_stops(by_two, Goal::minimize, running_at(8, {0.4, 0.1})).empty());  // both trials are complete
  CHECK(stopped_by(by_two, Goal::minimize, running_at(1, {not_a_number})) == Numbers{0});
}

TEST_CASE("asha_stops() judges a trial once at each rung") {
  std::vector<Progress> trials = running_at(1, {0.4, 0.1});
  trials[0].until = 2;
  CHECK(asha_stops(by_two, Goal::minimize, trials) == std::vector<Decision>{{Kind::promote, 1, 2}});
  trials[1].until = 2;
  CHECK(asha_stops(by_two, Goal::minimize, trials).empty());
  trials[0].reports.emplace_back(2, 0.4);
  trials[1].reports.emplace_back(3, 0.1);
  CHECK(asha_stops(by_two, Goal::minimize, trials) ==
        std::vector<Decision>{{Kind::stop, 0, 2}, {Kind::promote, 1, 4}});
}

TEST_CASE("asha_stops() stops no trial before the first rung, and also compares a trial with ended trials") {
  const AshaOptions from_two{.min = 2, .max = 8, .factor = 2};
  CHECK(asha_stops(from_two, Goal::minimize, running_at(1, {0.4, 0.1})).empty());
  std::vector<Progress> trials = running_at(2, {0.4, 0.1});
  for (Progress& trial : trials) trial.until = 0;
  trials[1].state = TrialState::stopped;
  CHECK(stopped_by(from_two, Goal::minimize, trials) == Numbers{0});
  // Trial 0 is now the only trial at the next rung, so it continues.
  trials[0].reports.emplace_back(4, 0.4);
  CHECK(stopped_by(from_two, Goal::minimize, trials).empty());
}

TEST_CASE("the decisions about trials are the same in any order of trials and reports") {
  std::vector<Progress> trials = paused_at(1, {0.5, 0.4, 0.3, 0.3, 0.2, not_a_number});
  trials[4] = trial_of(4, TrialState::running, 8, {{1, 0.2}, {2, 0.3}, {3, 0.1}});
  trials[1] = trial_of(1, TrialState::running, 0, {{1, 0.4}, {2, 0.2}, {2, not_a_number}});
  trials.push_back(trial_of(6, TrialState::succeeded, 8, {{1, 0.2}, {2, 1e308}, {3, 1e308}, {4, -1e308}}));
  const std::vector<Decision> promotions = asha_promotions(by_two, Goal::minimize, trials, 2, 3);
  const std::vector<Decision> stops = asha_stops(by_two, Goal::minimize, trials);
  const Numbers medians = median_stops({1, 1}, Goal::minimize, trials);
  CHECK_FALSE(promotions.empty());
  CHECK_FALSE(stops.empty());
  for (int turn = 0; turn < 7; ++turn) {
    std::rotate(trials.begin(), trials.begin() + 3, trials.end());
    for (Progress& trial : trials) std::reverse(trial.reports.begin(), trial.reports.end());
    CHECK(asha_promotions(by_two, Goal::minimize, trials, 2, 3) == promotions);
    CHECK(asha_stops(by_two, Goal::minimize, trials) == stops);
    CHECK(median_stops({1, 1}, Goal::minimize, trials) == medians);
  }
}

// Three successful trials. The means of their reports up to resource 2 are 0.85, 0.75 and 0.65.
std::vector<Progress> three_done() {
  return {trial_of(0, TrialState::succeeded, 0, {{1, 0.9}, {2, 0.8}, {3, 0.1}}),
          trial_of(1, TrialState::succeeded, 0, {{1, 0.8}, {2, 0.7}, {3, 0.1}}),
          trial_of(2, TrialState::succeeded, 0, {{1, 0.7}, {2, 0.6}, {3, 0.1}})};
}

TEST_CASE("median_stops() stops a trial whose best report is worse than the median of the others' means") {
  std::vector<Progress> trials = three_done();
  const auto stops = [&](const Reports& reports, const MedianOptions& options = {}) {
    std::vector<Progress> all = trials;
    all.push_back(trial_of(3, TrialState::running, 0, reports));
    return median_stops(options, Goal::minimize, all) == Numbers{3};
  };
  CHECK(stops({{1, 0.9}, {2, 0.76}}));
  CHECK_FALSE(stops({{1, 0.9}, {2, 0.74}}));
  CHECK_FALSE(stops({{2, 0.75}}));            // the median itself
  CHECK_FALSE(stops({{1, 0.74}, {2, 0.9}}));  // the best report counts
  CHECK(stops({{1, not_a_number}, {2, not_a_number}}));
  CHECK_FALSE(stops({}));
  CHECK(stops({{2, 0.9}}, {.grace = 2, .min_trials = 3}));
  CHECK_FALSE(stops({{2, 0.9}}, {.grace = 3, .min_trials = 3}));
  CHECK_FALSE(stops({{2, 0.9}}, {.grace = 1, .min_trials = 4}));
  trials[2].state = TrialState::stopped;
  CHECK_FALSE(stops({{2, 0.9}}));
  trials[2] = trial_of(2, TrialState::succeeded, 0, {{3, 0.1}});  // no report up to 2: the worst
  CHECK(stops({{2, 0.86}}));
  CHECK_FALSE(stops({{2, 0.84}}));
}

TEST_CASE("the median of an even number of trials is the mean of the two middle trials") {
  std::vector<Progress> trials = three_done();
  trials.push_back(trial_of(4, TrialState::succeeded, 0, {{1, 0.6}, {2, 0.5}}));  // means 0.85 0.75 0.65 0.55
  trials.push_back(trial_of(3, TrialState::running, 0, {{2, 0.71}}));
  CHECK(median_stops({}, Goal::minimize, trials) == Numbers{3});
  trials.back().reports = {{2, 0.69}};
  CHECK(median_stops({}, Goal::minimize, trials).empty());
}

TEST_CASE("median_stops() stops trials whose values are too small if the goal is to maximize") {
  std::vector<Progress> trials = three_done();
  trials.push_back(trial_of(3, TrialState::running, 0, {{2, 0.74}}));
  trials.push_back(trial_of(4, TrialState::running, 0, {{2, 0.76}}));
  CHECK(median_stops({}, Goal::maximize, trials) == Numbers{3});
}

}  // namespace
}  // namespace mlk::sweeps
