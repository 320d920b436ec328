// Tests early stopping in whole sweeps of simulated learning curves: how many steps it saves, and how good
// the best trial is.
#include <algorithm>
#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "sweeps/search/stopping.h"

TEST_SUITE_BEGIN("sweeps/search/stopping_curves");

namespace mlk::sweeps {
namespace {

constexpr int trial_count = 81, places = 9, seeds = 40;
constexpr std::int64_t whole = 64;  // the resource of a whole trial: rungs 1, 4, 16, 64

// Losses that fall to different final values at different rates, with noise, so that the curves cross.
class Curves {
 public:
  explicit Curves(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < trial_count; ++i) {
      const double end = 0.1 + next(), pace = 0.5 + next();
      std::vector<double> losses;
      for (std::int64_t step = 1; step <= whole; ++step)
        losses.push_back(end + 2 * std::pow(static_cast<double>(step), -pace) + 0.02 * (next() - 0.5));
      losses_.push_back(std::move(losses));
    }
  }

  double loss(int trial, std::int64_t step) const {
    return losses_[static_cast<std::size_t>(trial)][static_cast<std::size_t>(step - 1)];
  }

  // The number of trials that are better than this trial at full length.
  int rank(int trial) const {
    return static_cast<int>(std::count_if(losses_.begin(), losses_.end(), [&](const auto& losses) {
      return losses.back() < loss(trial, whole);
    }));
  }

 private:
  // Returns a number from 0 to 1. Uses no distributions of the standard library, since they differ between
  // platforms.
  double next() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  std::mt19937_64 random_;
  std::vector<std::vector<double>> losses_;
};

struct Outcome {
  std::int64_t steps = 0;  // of all trials
  int rank = trial_count;  // of the best whole trial
};

std::int64_t step_of(const Progress& trial) { return trial.reports.empty() ? 0 : trial.reports.back().first; }

int running_in(const std::vector<Progress>& trials) {
  return static_cast<int>(std::count_if(trials.begin(), trials.end(), [](const Progress& trial) {
    return trial.state == TrialState::running;
  }));
}

// Trains every running trial for one step.
void train(const Curves& curves, std::vector<Progress>& trials, Outcome& outcome) {
  for (Progress& trial : trials) {
    if (trial.state != TrialState::running) continue;
    const std::int64_t step = step_of(trial) + 1;
    trial.reports.emplace_back(step, curves.loss(trial.number, step));
    ++outcome.steps;
    if (step < whole) continue;
    trial.state = TrialState::succeeded;
    outcome.rank = std::min(outcome.rank, curves.rank(trial.number));
  }
}

void start_trials(std::vector<Progress>& trials, std::int64_t until, int count) {
  for (; count > 0 && static_cast<int>(trials.size()) < trial_count; --count)
    trials.push_back({static_cast<int>(trials.size()), TrialState::running, until, {}});
}

Outcome with_promotions(const Curves& curves, int factor) {
  std::vector<Progress> trials;
  Outcome outcome;
  do {
    const int unstarted = trial_count - static_cast<int>(trials.size());
    for (const Decision& decision : asha_promotions({1, whole, factor}, Goal::minimize, trials,
                                                    places - running_in(trials), unstarted)) {
      if (decision.kind == Decision::Kind::start) {
        start_trials(trials, decision.until, 1);
        continue;
      }
      Progress& trial = trials.at(static_cast<std::size_t>(decision.number));
      const bool promoted = decision.kind == Decision::Kind::promote;
      trial.state = promoted ? TrialState::running : TrialState::waiting;
      trial.until = decision.until;
    }
    REQUIRE(running_in(trials) <= places);
    train(curves, trials, outcome);
  } while (running_in(trials) > 0 || static_cast<int>(trials.size()) < trial_count);
  return outcome;
}

void stop_trial(std::vector<Progress>& trials, int number) {
  Progress& trial = trials.at(static_cast<std::size_t>(number));
  REQUIRE(trial.state == TrialState::running);
  trial.state = TrialState::stopped;
}

// Runs a sweep under a rule that never resumes a trial. A new trial starts in each free place. `judge` gets
// the trials after each step.
template <typename Judge>
Outcome with_stops(const Curves& curves, const Judge& judge) {
  std::vector<Progress> trials;
  Outcome outcome;
  do {
    start_trials(trials, 0, places - running_in(trials));
    train(curves, trials, outcome);
    judge(trials);
  } while (running_in(trials) > 0 || static_cast<int>(trials.size()) < trial_count);
  return outcome;
}

// A summary of the sweeps of all seeds: how many of them have found one of the best trials, and how many
// steps the most expensive sweep has used.
struct Summary {
  int best_five = 0, best_one = 0;
  double largest_share = 0;  // of the steps of 81 whole trials

  void add(const Outcome& outcome) {
    best_five += outcome.rank < 5;
    best_one += outcome.rank == 0;
    largest_share = std::max(largest_share, static_cast<double>(outcome.steps) / (trial_count * whole));
  }
};

TEST_CASE(
    "ASHA with promotions needs 40% of the steps of 81 trials, and usually finds one of the five best") {
  for (const int factor : {3, 4}) {
    CAPTURE(factor);
    Summary summary;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) summary.add(with_promotions(Curves(seed), factor));
    CHECK(summary.largest_share <= 0.4);
    CHECK(summary.best_five >= seeds * 9 / 10);
  }
}

TEST_CASE("ASHA with stops needs 40% of the steps of 81 trials, and usually finds one of the five best") {
  for (const int factor : {3, 4}) {
    CAPTURE(factor);
    Summary summary;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      summary.add(with_stops(Curves(seed), [&](std::vector<Progress>& trials) {
        for (const Decision& decision : asha_stops({1, whole, factor}, Goal::minimize, trials)) {
          trials.at(static_cast<std::size_t>(decision.number)).until = decision.until;
          if (decision.kind == Decision::Kind::stop) stop_trial(trials, decision.number);
        }
      }));
    }
    CHECK(summary.largest_share <= 0.4);
    CHECK(summary.best_five >= seeds * 9 / 10);
  }
}

TEST_CASE("the median rule saves a tenth of the steps of 81 trials, and usually finds one of the five best") {
  Summary summary;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    summary.add(with_stops(Curves(seed), [](std::vector<Progress>& trials) {
      for (const int number : median_stops({.grace = 4, .min_trials = 3}, Goal::minimize, trials))
        stop_trial(trials, number);
    }));
  }
  CHECK(summary.largest_share < 0.9);
  CHECK(summary.best_five >= 9);
}

}  // namespace
}  // namespace mlk::sweeps
