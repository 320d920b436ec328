// How fast the searches of a sweep find small values, for tests/bench/search.py.
//   bench_search values                                  every problem's values at fixed points
//   bench_search PROBLEM EVALUATIONS PARALLEL SEED... [random]
//     for each seed a line: the regret after all evaluations. So many trials run at a time, each for a time
//     of its own, and the next one is suggested as soon as one ends
//   bench_search time PROBLEM TRIALS                      the milliseconds of a suggestion after so many
//   trials bench_search digits:FOLDER EVALUATIONS SEED... [random]
//     the same of networks that are trained on digits one after the other, each with a seed of its own; a
//     line is the point of the smallest loss that was seen
//   bench_search losses:FOLDER                            reads lines [POINT, SEED...], tells the mean loss

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/search/random.h"
#include "sweeps/search/tpe.h"
#include "sweeps/space/axis.h"
#include "sweeps/space/counter_random.h"
#include "tests/bench/digits_training.h"
#include "tests/bench/search_hard_problems.h"
#include "tests/bench/search_problems.h"

namespace {

using namespace mlk::sweeps;
using mlk::bench::Problem;

constexpr std::size_t fixed_points = 20;

// Points that need no generator of random numbers: search.py makes the same ones.
Point fixed_point(const Space& space, std::size_t number) {
  Point point;
  std::size_t place = number;
  for (const Axis& axis : axes_of(space)) {
    ++place;
    if (!holds(axis.parameter().when, point)) continue;
    constexpr std::size_t modulus = 11;
    point[axis.parameter().path] =
        axis.value_at((static_cast<double>(place * place % modulus) + 0.5) / static_cast<double>(modulus));
  }
  return point;
}

std::vector<Problem> all_problems() {
  std::vector<Problem> all = mlk::bench::problems();
  const std::vector<Problem> hard = mlk::bench::hard_problems();
  all.insert(all.end(), hard.begin(), hard.end());
  return all;
}

void print_values() {
  for (const Problem& problem : all_problems()) {
    std::printf("%s", problem.name.c_str());
    for (std::size_t i = 0; i < fixed_points; ++i)
      std::printf(" %.12g", problem.value(fixed_point(problem.space, i)));
    std::printf("\n");
  }
}

constexpr std::uint64_t steps_of_digits = 150;

double loss_of(mlk::bench::Digits& digits, const Point& point, std::uint64_t seed) {
  return digits.train(point, seed, steps_of_digits, steps_of_digits).back().loss;
}

// Searches the space as a sweep with one trial at a time does. `value` gets the number of the evaluation too.
// `on_best` gets the best evaluation so far.
template <typename Value, typename OnBest>
void search(const Space& space, int evaluations, std::uint64_t seed, bool is_random, const Value& value,
            const OnBest& on_best) {
  TpeOptions options;
  options.seed = seed;
  if (is_random) options.startup = evaluations;
  std::vector<Told> told;
  std::size_t best = 0;
  for (int i = 0; i < evaluations; ++i) {
    const std::optional<Point> point = suggest_tpe(space, Objective::Goal::minimize, options, told);
    if (!point) break;
    told.push_back({*point, value(*point, i)});
    if (*told.back().value < *told[best].value) best = told.size() - 1;
    on_best(told[best]);
  }
}

// A sweep with so many trials at a time, on a clock of its own.
class ParallelSearch {
 public:
  ParallelSearch(const Problem& problem, std::uint64_t seed, bool is_random, int evaluations)
      : problem_(problem), durations_(seed, 1), noise_(seed, 2), evaluations_(evaluations) {
    options_.seed = seed;
    if (is_random) options_.startup = evaluations;
  }

  // The value, without noise, of the point that seemed best, less the smallest value there is.
  double regret(int parallel) {
    for (int ended = 0; ended < evaluations_; ++ended) {
      while (running() < parallel && start()) {
      }
      if (running() == 0) break;
      end_next();
    }
    return best_ - problem_.best;
  }

 private:
  long running() const {
    return std::count_if(told_.begin(), told_.end(), [](const Told& one) { return one.running; });
  }

  bool start() {
    if (static_cast<int>(told_.size()) == evaluations_) return false;
    const std::optional<Point> point =
        suggest_tpe(problem_.space, Objective::Goal::minimize, options_, told_);
    if (!point) return false;
    told_.push_back({*point, std::nullopt, true});
    ends_.push_back(now_ + 0.5 + durations_.uniform());
    return true;
  }

  void end_next() {
    std::size_t next = told_.size();
    for (std::size_t i = 0; i < told_.size(); ++i) {
      if (told_[i].running && (next == told_.size() || ends_[i] < ends_[next])) next = i;
    }
    now_ = ends_[next];
    told_[next].running = false;
    const double value = problem_.value(told_[next].point);
    const double seen = value + problem_.noise * noise_.normal();
    if (std::isnan(value)) return;
    told_[next].value = seen;
    if (seen < best_seen_) {
      best_seen_ = seen;
      best_ = value;
    }
  }

  const Problem& problem_;
  TpeOptions options_;
  CounterRandom durations_, noise_;
  int evaluations_;
  std::vector<Told> told_;
  std::vector<double> ends_;  // of the trials, as told_
  double now_ = 0, best_ = std::numeric_limits<double>::infinity(), best_seen_ = best_;
};

void time_suggestion(const Problem& problem, std::size_t trials) {
  constexpr int turns = 11;
  std::vector<Told> told;
  for (const Point& point : random_points(problem.space, 1, trials))
    told.push_back({point, problem.value(point)});
  std::vector<double> times;
  for (int turn = 0; turn < turns; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    const std::optional<Point> point = suggest_tpe(problem.space, Objective::Goal::minimize, {}, told);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    told.push_back({*point, problem.value(*point)});
  }
  for (const double time : times) std::printf("%.6g ", time);
  std::printf("\n");
}

void search_digits(mlk::bench::Digits& digits, int evaluations, std::uint64_t seed, bool is_random) {
  constexpr std::uint64_t most_evaluations = 1000;
  Point found;
  search(
      mlk::bench::digits_space(), evaluations, seed, is_random,
      [&](const Point& point, int i) {
        return loss_of(digits, point, seed * most_evaluations + static_cast<std::uint64_t>(i));
      },
      [&](const Told& best) { found = best.point; });
  std::printf("%s\n", nlohmann::json(found).dump().c_str());
  std::fflush(stdout);
}

void tell_losses(mlk::bench::Digits& digits) {
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json asked = nlohmann::json::parse(line);
    double sum = 0;
    for (std::size_t i = 1; i < asked.size(); ++i)
      sum += loss_of(digits, asked[0].get<Point>(), asked[i].get<std::uint64_t>());
    std::printf("%.12g\n", sum / static_cast<double>(asked.size() - 1));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{"values"}) {
    print_values();
    return 0;
  }
  if (arguments.empty()) return 2;
  const std::size_t colon = arguments[0].find(':');
  const std::string name = arguments[0].substr(0, colon);
  std::optional<mlk::bench::Digits> digits;
  if (colon != std::string::npos) digits.emplace(arguments[0].substr(colon + 1));
  if (digits && name == "losses") {
    tell_losses(*digits);
    return 0;
  }
  const std::vector<Problem> all = all_problems();
  const auto problem_of = [&](const std::string& wanted) {
    return std::find_if(all.begin(), all.end(), [&](const Problem& each) { return each.name == wanted; });
  };
  if (name == "time" && arguments.size() == 3 && problem_of(arguments[1]) != all.end()) {
    time_suggestion(*problem_of(arguments[1]), std::strtoull(arguments[2].c_str(), nullptr, 10));
    return 0;
  }
  const auto problem = problem_of(name);
  if (arguments.size() < 3 || (!digits && problem == all.end())) return 2;
  const bool is_random = arguments.back() == "random";
  const int evaluations = std::atoi(arguments[1].c_str());
  for (std::size_t i = digits ? 2 : 3; i < arguments.size() - (is_random ? 1 : 0); ++i) {
    const std::uint64_t seed = std::strtoull(arguments[i].c_str(), nullptr, 10);
    if (digits)
      search_digits(*digits, evaluations, seed, is_random);
    else
      std::printf(
          "%.12g\n",
          ParallelSearch(*problem, seed, is_random, evaluations).regret(std::atoi(arguments[2].c_str())));
  }
}
