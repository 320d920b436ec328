// Tests the densities of search tpe: whether they add up to one, what they prefer, and whether draw() follows
// them.
#include "sweeps/search/tpe_density.h"

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/tpe_density");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::integer;
using mlk::test::uniform;

namespace {

double density_at(const Density& density, const Places& places) { return std::exp(density.log_at(places)); }

double sum_over_cells(const Axis& axis, const std::function<double(double)>& value) {
  double sum = 0;
  for (std::uint64_t cell = 0; cell < axis.cells(); ++cell) sum += value(axis.middle_of(cell));
  return sum;
}

double mean_over_axis(const std::function<double(double)>& value, double from = 0, double to = 1) {
  constexpr int steps = 4000;
  double sum = 0;
  for (int i = 0; i < steps; ++i) sum += value(from + (to - from) * (i + 0.5) / steps);
  return sum / steps;
}

}  // namespace

TEST_CASE("places_of() returns a place on each axis, or `absent` for a missing or impossible value") {
  const Space space{{uniform("x", 0, 4), choice("a", {"p", "q"}), integer("n", 1, 2)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  CHECK(places_of(axes, {{"n", 2}, {"x", 1}, {"a", "q"}, {"other", 7}}) == Places{0.25, 0.75, 0.75});
  CHECK(places_of(axes, {{"x", 5}, {"a", "r"}}) == Places{absent, absent, absent});
}

TEST_CASE("point_at() makes a point of the parameters whose conditions hold") {
  const Space space{{choice("a", {"p", "q"}), uniform("x", 0, 4, {{"a", {"p"}}}), integer("n", 1, 4)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  std::vector<std::size_t> asked;
  const auto made = [&](const Places& chosen) {
    asked.clear();
    return point_at(axes, [&](std::size_t i) {
      asked.push_back(i);
      return chosen[i];
    });
  };
  const PlacedPoint with = made({0.1, 0.5, 0.9});
  CHECK(with.point == Point{{"a", "p"}, {"x", 2.0}, {"n", 4}});
  CHECK(with.places == Places{0.25, 0.5, 0.875});
  CHECK(asked == std::vector<std::size_t>{0, 1, 2});
  const PlacedPoint without = made({0.6, 0.5, -3});
  CHECK(without.point == Point{{"a", "q"}, {"n", 1}});
  CHECK(without.places == Places{0.75, absent, 0.125});
  CHECK(asked == std::vector<std::size_t>{0, 2});
  CHECK(made({0.1, 7, 7}).point == Point{{"a", "p"}, {"x", 4.0}, {"n", 4}});
}

TEST_CASE("a density over a range adds up to one, even if a kernel reaches beyond the range") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const Density density(axes, {{{0.02}, 1, {0.1}}, {{0.7}, 2, {0.05}}, {{0.999}, 0.5, {0.9}}}, 0.3);
  CHECK(mean_over_axis([&](double place) { return density_at(density, {place}); }) ==
        doctest::Approx(1).epsilon(1e-4));
}

TEST_CASE("far from all observations, a density is the weight of the prior divided by the sum of weights") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  CHECK(density_at(Density(axes, {{{0.1}, 3, {0.02}}}, 1), {0.9}) == doctest::Approx(0.25));
  CHECK(density_at(Density(axes, {{{0.1}, 1, {0.02}}, {{0.2}, 2, {0.02}}}, 2), {0.9}) ==
        doctest::Approx(0.4));
  CHECK(density_at(Density(axes, {}, 2), {0.9}) == doctest::Approx(1));
}

TEST_CASE("the probabilities of whole numbers add up to one, and are larger near the observations") {
  for (const int last : {4, 64}) {
    const Space space{{integer("n", 1, last)}, {}};
    const std::vector<Axis> axes = axes_of(space);
    const std::uint64_t end = axes[0].cells() - 1;
    const Density density(axes, {{{axes[0].middle_of(0)}, 1, {0.1}}, {{axes[0].middle_of(end)}, 1, {0.01}}},
                          1);
    const auto at = [&](std::uint64_t cell) { return density_at(density, {axes[0].middle_of(cell)}); };
    CHECK(sum_over_cells(axes[0], [&](double place) { return density_at(density, {place}); }) ==
          doctest::Approx(1));
    CHECK(at(0) > at(1));
    CHECK(at(1) > at((end + 1) / 2));
    CHECK(at(end) > at(0));
    CHECK(at(end) > at(end - 1));
  }
  // An axis with more than 64 cells counts as a range.
  const Space many{{integer("n", 1, 65)}, {}};
  const std::vector<Axis> axes = axes_of(many);
  const Density density(axes, {{{axes[0].middle_of(20)}, 1, {0.1}}}, 1);
  CHECK(sum_over_cells(axes[0], [&](double place) { return density_at(density, {place}); }) / 65 ==
        doctest::Approx(1).epsilon(1e-3));
}

TEST_CASE("the more often a word was observed, the likelier it is") {
  const Space space{{choice("a", {"p", "q", "r"})}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const double p = 1.0 / 6, q = 0.5, r = 5.0 / 6;
  double before = 1.0 / 3;
  for (const std::size_t count : {1u, 3u, 9u, 30u}) {
    const Density density(axes, std::vector<Observation>(count, {{q}, 1, {1}}), 1);
    CHECK(density_at(density, {p}) + density_at(density, {q}) + density_at(density, {r}) ==
          doctest::Approx(1));
    CHECK(density_at(density, {p}) == doctest::Approx(density_at(density, {r})));
    CHECK(density_at(density, {q}) > before);
    before = density_at(density, {q});
  }
  CHECK(before > 0.85);
  CHECK(before < 1);
}

TEST_CASE("a density adds up to one over the points with and without a conditional parameter") {
  const Parameter of_range = uniform("b", 0, 1, {{"a", {"p"}}}),
                  of_cells = integer("b", 1, 5, {{"a", {"p"}}}),
                  of_words = choice("b", {"k", "l", "m"}, {{"a", {"p"}}});
  for (const Parameter& conditional : {of_range, of_cells, of_words}) {
    const Space space{{choice("a", {"p", "q"}), conditional}, {}};
    const std::vector<Axis> axes = axes_of(space);
    const Density density(
        axes, {{{0.25, 0.3}, 1, {1, 0.1}}, {{0.75, absent}, 2, {1, 0.2}}, {{0.25, absent}, 0.5, {1, 0.2}}},
        0.7);
    const auto with = [&](double b) { return density_at(density, {0.25, b}); };
    const double sum = axes[1].cells() == 0 ? mean_over_axis(with) : sum_over_cells(axes[1], with);
    CHECK(sum + density_at(density, {0.75, absent}) == doctest::Approx(1).epsilon(1e-4));
  }
}

TEST_CASE("draw() follows the density on an axis of words, of whole numbers or of numeric choices") {
  constexpr int draws = 6000;
  for (const Parameter& parameter :
       {choice("a", {"p", "q", "r", "s"}), integer("a", 1, 4), choice("a", {1, 10, 100, 1000})}) {
    const Space space{{parameter}, {}};
    const std::vector<Axis> axes = axes_of(space);
    const Density density(axes, {{{0.125}, 1, {0.15}}, {{0.625}, 2, {0.3}}}, 0.5);
    CounterRandom random(3, 1);
    std::map<double, int> counts;
    for (int i = 0; i < draws; ++i) ++counts[density.draw(random).places[0]];
    for (std::uint64_t cell = 0; cell < 4; ++cell) {
      const double middle = axes[0].middle_of(cell), share = counts[middle] / double{draws};
      CHECK(std::fabs(share - density_at(density, {middle})) < 0.025);
    }
  }
}

TEST_CASE("draw() follows the density on an axis with a range, and stays inside the range") {
  constexpr int draws = 6000;
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const Density density(axes, {{{0.05}, 1, {0.1}}, {{0.6}, 2, {0.05}}}, 0.5);
  CounterRandom random(4, 1);
  std::map<int, int> counts;
  for (int i = 0; i < draws; ++i) {
    const double place = density.draw(random).places[0];
    CHECK((place >= 0 && place <= 1));
    ++counts[static_cast<int>(place * 10)];
  }
  for (int tenth = 0; tenth < 10; ++tenth) {
    const double wanted = mean_over_axis([&](double place) { return density_at(density, {place}); },
                                         tenth / 10.0, (tenth + 1) / 10.0) /
                          10;
    CHECK(std::fabs(counts[tenth] / double{draws} - wanted) < 0.025);
  }
}

TEST_CASE("a parameter is drawn from its whole range if the observation does not have it") {
  const Space space{{choice("a", {"p", "q"}), uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const Density density(axes, {{{0.25, absent}, 99, {1, 0.01}}}, 1);
  CounterRandom random(5, 1);
  int low = 0;
  for (int i = 0; i < 2000; ++i) low += density.draw(random).point.at("x").get<double>() < 0.25;
  CHECK(low > 420);
  CHECK(low < 580);
}
