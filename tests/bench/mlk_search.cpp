// How fast the searches of a sweep find small values, for tests/bench/search.py.
//   bench_search values                                  every problem's values at fixed points
//   bench_search PROBLEM EVALUATIONS SEED... [random]    for each seed a line: the regret after each
//   evaluation bench_search digits:FOLDER EVALUATIONS SEED... [random]
//     the same of networks that are trained on digits, each with a seed of its own; a line is the point of
//     the smallest loss that was seen
//   bench_search losses:FOLDER                            reads lines [POINT, SEED...], and tells the mean
//   loss

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/axis.h"
#include "sweeps/random.h"
#include "sweeps/tpe.h"
#include "tests/bench/digits_training.h"
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

void print_values() {
  for (const Problem& problem : mlk::bench::problems()) {
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

// Searches the space as a sweep with one trial at a time does. `value` gets the number of the evaluation too;
// `told_of` what was known after it.
template <typename Value, typename ToldOf>
void search(const Space& space, int evaluations, std::uint64_t seed, bool is_random, const Value& value,
            const ToldOf& told_of) {
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
    told_of(told[best]);
  }
}

void search_problem(const Problem& problem, int evaluations, std::uint64_t seed, bool is_random) {
  bool first = true;
  search(
      problem.space, evaluations, seed, is_random,
      [&](const Point& point, int) { return problem.value(point); },
      [&](const Told& best) {
        std::printf(first ? "%.12g" : " %.12g", *best.value - problem.best);
        first = false;
      });
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
  const std::vector<Problem> all = mlk::bench::problems();
  const auto problem =
      std::find_if(all.begin(), all.end(), [&](const Problem& each) { return each.name == name; });
  if (arguments.size() < 3 || (!digits && problem == all.end())) return 2;
  const bool is_random = arguments.back() == "random";
  const int evaluations = std::atoi(arguments[1].c_str());
  for (std::size_t i = 2; i < arguments.size() - (is_random ? 1 : 0); ++i) {
    const std::uint64_t seed = std::strtoull(arguments[i].c_str(), nullptr, 10);
    if (digits)
      search_digits(*digits, evaluations, seed, is_random);
    else
      search_problem(*problem, evaluations, seed, is_random);
  }
}
