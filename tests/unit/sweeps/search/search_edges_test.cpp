// Edge cases of the searches: ends of axes, empty grids, and points that must be the same in every version.
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "sweeps/results/importance.h"
#include "sweeps/results/importance_forest.h"
#include "sweeps/search/grid.h"
#include "sweeps/search/random.h"
#include "sweeps/search/sobol.h"
#include "sweeps/search/triangle.h"
#include "sweeps/space/axis.h"
#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/search_edges");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::integer;
using mlk::test::log_integer;
using mlk::test::log_uniform;
using mlk::test::uniform;
using nlohmann::json;

TEST_CASE("an axis has places for the bounds of its range, but no place for a value outside of the range") {
  const Parameter range = uniform("x", -1, 3), logarithmic = log_uniform("x", 0.01, 100),
                  whole = integer("n", 3, 6), words = choice("a", {"p", "q"});
  CHECK(Axis(range).place_of(-1) == 0.0);
  CHECK(Axis(range).place_of(3) == 1.0);
  CHECK_FALSE(Axis(range).place_of(-1.001));
  CHECK(Axis(range).value_at(-5) == -1.0);
  CHECK(Axis(range).cells() == 0);
  CHECK(Axis(range).is_ordered());
  CHECK(*Axis(logarithmic).place_of(0.01) == doctest::Approx(0));
  CHECK(*Axis(logarithmic).place_of(100) == doctest::Approx(1));
  CHECK(*Axis(logarithmic).place_of(10) == doctest::Approx(0.75));
  CHECK_FALSE(Axis(logarithmic).place_of(0.009));
  CHECK_FALSE(Axis(logarithmic).place_of(101));
  CHECK(Axis(logarithmic).value_at(2) == 100.0);
  CHECK(Axis(whole).cell_at(-1) == 0);
  CHECK(Axis(whole).cell_at(2) == 3);
  CHECK_FALSE(Axis(whole).cell_of(2));
  CHECK_FALSE(Axis(whole).cell_of("3"));
  CHECK(Axis(whole).cell_of(6) == 3u);
  CHECK(Axis(whole).width_of(1) == 0.25);
  CHECK(Axis(whole).start_of(4) == 1);
  CHECK(Axis(words).width_of(0) == 0.5);
  CHECK(Axis(words).middle_of(1) == 0.75);
  CHECK(Axis(words).cell_of("q") == 1u);
  CHECK_FALSE(Axis(words).cell_of("r"));
}

TEST_CASE("bounds with a fraction are rounded inwards if a parameter takes whole numbers") {
  const Parameter between = integer("n", 1.5, 4.2);
  CHECK(Axis(between).cells() == 3);
  CHECK(Axis(between).value_of(0) == 2);
  CHECK(Axis(between).value_of(2) == 4);
  const Parameter mixed = choice("a", {2, "x", 1});
  CHECK_FALSE(Axis(mixed).is_ordered());
  CHECK(Axis(mixed).value_of(0) == 2);
}

TEST_CASE("grid_points() returns no points if none are wanted, and count_grid() refuses a continuous range") {
  const Space space{{integer("a", 1, 3)}, {}};
  CHECK(grid_points(space, 0).empty());
  CHECK(is_finite({{integer("a", 1, 3), log_integer("b", 1, 3), choice("c", {1})}, {}}));
  try {
    count_grid({{uniform("lr", 0, 1)}, {}});
    FAIL("was accepted");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(error.hint() == "write a list of values for it, or search: random");
  }
}

TEST_CASE("count_grid() counts the points correctly, even if conditions have impossible or repeated values") {
  const Space space{{integer("a", 1, 5), choice("b", {1, 2}, {{"a", {2, 2, 9}}}),
                     choice("c", {1, 2, 3}, {{"a", {2, 3}}, {"b", {1}}})},
                    {{{"a", {5}}}}};
  // a=1, a=3 and a=4 have one point each. a=2 has three points with b=1, one for each c, and one point with
  // b=2.
  CHECK(count_grid(space).points == 3 + 3 + 1);
  CHECK(grid_points(space, 99).size() == 7);
}

TEST_CASE("a seed gives the same points in every version of mlk, so another version can continue a sweep") {
  const struct {
    std::uint64_t seed;
    std::size_t dimension;
    std::uint32_t index;
    double value;
  } cases[] = {
      {1, 0, 0u, 0x1.c943915cp-1},           {1, 0, 1u, 0x1.9c73f1e8p-3},
      {1, 1, 3u, 0x1.4ea66ed4p-1},           {2, 1, 3u, 0x1.6e584edp-2},
      {7, 5, 100u, 0x1.ed2fa4a4p-2},         {7, 12, 1000u, 0x1.6b8aa82cp-2},
      {1, 36, 65535u, 0x1.cde79acp-3},       {3, 37, 9u, 0x1.214ad718p-1},
      {3, 50, 4294967295u, 0x1.f2695f9cp-1}, {1, 3, 4294967295u, 0x1.47fc2024p-1},
  };
  for (const auto& each : cases) CHECK(sobol(each.seed, each.dimension, each.index) == each.value);
  std::string text;
  const Space space{{integer("a", 1, 9), choice("b", {"x", "y"}, {{"a", {1, 2, 3, 4}}})}, {}};
  for (const Point& point : random_points(space, 1, 20)) text += json(point).dump();
  CHECK(text ==
        R"({"a":9}{"a":2,"b":"x"}{"a":7}{"a":5}{"a":8}{"a":1,"b":"y"}{"a":6}{"a":3,"b":"x"}{"a":2,"b":"y"})"
        R"({"a":4,"b":"x"}{"a":1,"b":"x"}{"a":4,"b":"y"}{"a":3,"b":"y"})");
}

TEST_CASE("factorise() computes a finite factor of a matrix that rounding has made singular") {
  Triangle matrix(3);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j <= i; ++j) matrix.row(i)[j] = 1;
  }
  factorise(matrix);
  std::vector<double> values{1, 1, 1};
  solve_forward(matrix, values);
  solve_backward(matrix, values);
  for (const double value : values) CHECK(std::isfinite(value));
  CHECK(matrix.row(0)[0] == 1);
  CHECK(matrix.row(2)[2] > 0);
}

namespace {

// The importance in trials of two parameters. The value of a trial depends only on `parameter`.
Importance importance_of(const Parameter& parameter, int count, double (*value)(double)) {
  const Space space{{parameter, uniform("idle", 0, 1)}, {}};
  std::mt19937_64 random(9);
  std::vector<Trial> trials;
  for (int i = 0; i < count; ++i) {
    Trial& trial = trials.emplace_back();
    trial.state = TrialState::succeeded;
    const json chosen = Axis(parameter).value_at(random_unit(random));
    trial.point = {{parameter.path, chosen}, {"idle", random_unit(random)}};
    trial.objective = value(chosen.get<double>());
  }
  return importance(space, trials, {});
}

}  // namespace

TEST_CASE("importance() gives nearly the whole share to the only parameter that decides the value") {
  const auto logarithm = [](double x) { return std::log(x); };
  const auto itself = [](double x) { return x; };
  for (const Importance& found :
       {importance_of(log_integer("n", 1, 4096), 300, logarithm),
        importance_of(log_uniform("n", 1e-6, 1), 300, logarithm),
        importance_of(integer("n", 1, 9), 300, itself), importance_of(uniform("n", -3, 3), 300, itself)}) {
    REQUIRE(found.effects.size() >= 2);
    CHECK(found.effects[0].path == "n");
    CHECK(found.effects[0].with == "");
    CHECK(found.effects[0].share > 0.95);
    CHECK(found.fit > 0.9);
    for (std::size_t i = 1; i < found.effects.size(); ++i) {
      CHECK(found.effects[i].share <= found.effects[i - 1].share);
      if (!found.effects[i].with.empty()) CHECK(found.effects[i].share >= 0.01);
    }
  }
}

TEST_CASE("importance() works with twelve trials, and uses at most a thousand") {
  const auto itself = [](double x) { return x; };
  CHECK(importance_of(uniform("n", 0, 1), 12, itself).reason == "");
  CHECK(importance_of(uniform("n", 0, 1), 12, itself).trials == 12);
  CHECK(importance_of(uniform("n", 0, 1), 1500, itself).trials == 1000);
}
