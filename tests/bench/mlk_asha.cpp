// ASHA beside random search over real learning curves, for tests/bench/search.py.
//   bench_asha FOLDER SEED...
//
// For each seed 81 configurations of the digits space are trained to their end, and their accuracies on
// unseen digits recorded. Random search is all of them. ASHA is replayed over the same curves in the same
// order by what drives sweeps, with nine trials at a time. A line for each seed: accuracy and steps of random
// search, of ASHA with trials that are paused and go on, and of ASHA that stops them.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sweeps/search/decide.h"
#include "sweeps/search/random.h"
#include "tests/bench/digits_training.h"

namespace {

using namespace mlk::sweeps;

constexpr int configurations = 81, places = 9;
constexpr std::uint64_t steps_of_report = 25;
constexpr std::int64_t whole = 64, least = 4;  // reports of a whole trial: rungs 4, 16, 64
constexpr double steps_of_all = configurations * whole * static_cast<double>(steps_of_report);

using Curves = std::vector<std::vector<double>>;  // accuracies by trial and report

struct Outcome {
  double accuracy = 0;  // of the best whole trial, at its end
  double steps = 0;     // of all trials
};

// The trials one report further, as long as the sweep goes on.
Outcome replay(const Curves& curves, const std::vector<Point>& points, bool resumes) {
  Spec spec;
  spec.parallel = places;
  spec.objective.emplace().goal = Objective::Goal::maximize;
  spec.stop.rule = EarlyStop::Rule::asha;
  spec.stop.asha = {.min = least, .max = whole, .factor = 4};
  spec.stop.resumes = resumes;
  std::vector<Trial> trials;
  Outcome outcome;
  for (NextStep next = decide(spec, points, trials, configurations); !next.ended;
       next = decide(spec, points, trials, configurations)) {
    for (const Decision& decision : next.judged) {
      Trial& trial = trials.at(static_cast<std::size_t>(decision.number));
      if (decision.kind == Decision::Kind::promote) trial.state = TrialState::running;
      if (decision.kind == Decision::Kind::pause) trial.state = TrialState::waiting;
      if (decision.kind == Decision::Kind::stop) trial.state = TrialState::stopped;
      trial.until = decision.until;
    }
    for (const Point& point : next.start) {
      Trial trial;
      trial.number = static_cast<int>(trials.size());
      trial.point = point;
      trial.hash = hash_of(point);
      trial.state = TrialState::running;
      trials.push_back(std::move(trial));
    }
    for (Trial& trial : trials) {
      if (trial.state != TrialState::running) continue;
      const std::vector<double>& curve = curves.at(static_cast<std::size_t>(trial.number));
      trial.curve.emplace_back(static_cast<std::int64_t>(trial.curve.size()) + 1, curve[trial.curve.size()]);
      outcome.steps += static_cast<double>(steps_of_report);
      if (trial.curve.size() < curve.size()) continue;
      trial.state = TrialState::succeeded;
      outcome.accuracy = std::max(outcome.accuracy, curve.back());
    }
  }
  return outcome;
}

void compare(mlk::bench::Digits& digits, std::uint64_t seed) {
  const std::vector<Point> points = random_points(mlk::bench::digits_space(), seed, configurations);
  Curves curves;
  double best = 0;
  for (const Point& point : points) {
    curves.emplace_back();
    for (const auto& [loss, accuracy] :
         digits.train(point, seed * configurations + curves.size(), whole * steps_of_report, steps_of_report))
      curves.back().push_back(accuracy);
    best = std::max(best, curves.back().back());
  }
  const Outcome paused = replay(curves, points, true), stopped = replay(curves, points, false);
  std::printf("%.12g %.12g %.12g %.12g %.12g %.12g\n", best, steps_of_all, paused.accuracy, paused.steps,
              stopped.accuracy, stopped.steps);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  mlk::bench::Digits digits(argv[1]);
  for (int i = 2; i < argc; ++i) compare(digits, std::strtoull(argv[i], nullptr, 10));
}
