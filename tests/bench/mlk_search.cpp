// How fast the searches of a sweep find small values, for tests/bench/search.py.
//   bench_search values                                  every problem's values at fixed points
//   bench_search PROBLEM EVALUATIONS SEED... [random]    for each seed a line: the smallest value after each
//   evaluation

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/axis.h"
#include "sweeps/random.h"
#include "sweeps/tpe.h"
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

void search(const Problem& problem, int evaluations, std::uint64_t seed, bool is_random) {
  TpeOptions options;
  options.seed = seed;
  if (is_random) options.startup = evaluations;
  std::vector<Told> told;
  std::optional<double> best;
  for (int i = 0; i < evaluations; ++i) {
    const std::optional<Point> point = suggest_tpe(problem.space, Objective::Goal::minimize, options, told);
    if (!point) break;
    const double value = problem.value(*point);
    best = std::min(best.value_or(value), value);
    told.push_back({*point, value});
    std::printf(i == 0 ? "%.12g" : " %.12g", *best - problem.best);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{"values"}) {
    print_values();
    return 0;
  }
  const std::vector<Problem> all = mlk::bench::problems();
  const auto problem = std::find_if(all.begin(), all.end(), [&](const Problem& each) {
    return !arguments.empty() && each.name == arguments[0];
  });
  if (arguments.size() < 3 || problem == all.end()) return 2;
  const bool is_random = arguments.back() == "random";
  for (std::size_t i = 2; i < arguments.size() - (is_random ? 1 : 0); ++i)
    search(*problem, std::atoi(arguments[1].c_str()), std::strtoull(arguments[i].c_str(), nullptr, 10),
           is_random);
}
