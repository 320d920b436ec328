#include "sweeps/search/tpe_trend.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sweeps/space/counter_random.h"
#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/tpe_trend");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::uniform;

namespace {

std::vector<Places> places_in(std::size_t dimensions, std::size_t count) {
  CounterRandom random(1, 1);
  std::vector<Places> all(count, Places(dimensions));
  for (Places& places : all) {
    for (double& place : places) place = random.uniform();
  }
  return all;
}

}  // namespace

TEST_CASE("a trend follows a smooth function between the known points") {
  const Space space{{uniform("x", 0, 1), uniform("y", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const std::vector<Places> points = places_in(2, 40);
  std::vector<double> values;
  for (const Places& at : points) values.push_back(std::pow(at[0] - 0.4, 2) + std::pow(at[1] - 0.6, 2));
  const Trend trend(axes, points, values);
  CHECK(trend.at({0.4, 0.6}).mean < trend.at({0.5, 0.6}).mean);
  CHECK(trend.at({0.5, 0.6}).mean < trend.at({0.7, 0.6}).mean);
  CHECK(trend.at({0.7, 0.6}).mean < trend.at({0.9, 0.1}).mean);
}

TEST_CASE("a trend treats a single value far from its neighbours as noise") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  std::vector<Places> points;
  std::vector<double> values;
  for (int i = 0; i < 20; ++i) {
    points.push_back({(i + 0.5) / 20});
    values.push_back(std::pow(points.back()[0] - 0.2, 2));
  }
  values[16] = -0.02;
  const Trend trend(axes, points, values);
  CHECK(trend.at(points[4]).mean < trend.at(points[16]).mean);
}

TEST_CASE("a trend reduces the differences between bad values, but not if the values are noisy") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  // How far the trend at the worst place is from the trend at the best place, divided by the same distance
  // for the middle place.
  const auto ratio_with = [&](double noise) {
    CounterRandom random(1, 1);
    std::vector<std::pair<double, Places>> seen;
    for (int i = 0; i < 20; ++i) {
      for (const auto& [value, place] : {std::pair{0.0, 0.1}, {1.0, 0.5}, {10.0, 0.9}})
        seen.emplace_back(value + noise * random.normal(), Places{place + 0.004 * i - 0.04});
    }
    std::sort(seen.begin(), seen.end());
    std::vector<Places> points;
    std::vector<double> values;
    for (const auto& [value, at] : seen) {
      values.push_back(value);
      points.push_back(at);
    }
    const Trend trend(axes, points, values);
    const double best = trend.at({0.1}).mean;
    return (trend.at({0.9}).mean - best) / (trend.at({0.5}).mean - best);
  };
  CHECK(ratio_with(0) < 4);    // log(1 + 10) / log(1 + 1) is 3.5
  CHECK(ratio_with(0.5) > 6);  // without the logarithm the ratio is 10
}

TEST_CASE("a trend is finite for noisy values up to the largest numbers") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const Trend trend(axes, {{0.1}, {0.6}, {0.2}, {0.9}, {0.3}, {0.7}}, {0, 1e307, 3e307, 4e307, 6e307, 9e307});
  CHECK(std::isfinite(trend.at({0.5}).mean));
  CHECK(trend.at({0.5}).deviation > 0);
}

TEST_CASE("a trend can be fitted to points with words, and to points that lack a parameter") {
  const Space space{{choice("a", {"x", "y"}), uniform("b", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const std::vector<Places> points{{0.25, 0.2}, {0.25, 0.8}, {0.75, absent}, {0.75, 0.5}};
  const Trend trend(axes, points, {1, 1.1, 5, 6});
  CHECK(trend.at({0.25, 0.5}).mean < trend.at({0.75, 0.4}).mean);
  CHECK(trend.at({0.25, absent}).mean < trend.at({0.75, absent}).mean);
}

TEST_CASE("a trend becomes more certain at the points of running trials, and its mean does not change") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  std::vector<Places> points;
  std::vector<double> values;
  for (const double x : {0.0, 0.1, 0.2, 0.3, 0.4}) {
    points.push_back({x});
    values.push_back(std::pow(x - 0.3, 2));
  }
  const Trend alone(axes, points, values), beside(axes, points, values, {{0.8}});
  CHECK(beside.at({0.8}).deviation < 0.5 * alone.at({0.8}).deviation);
  CHECK(beside.at({0.8}).mean == doctest::Approx(alone.at({0.8}).mean));
  CHECK(beside.at({0.6}).mean == doctest::Approx(alone.at({0.6}).mean));
}

TEST_CASE("a parameter without effect gets a much longer correlation length than one with an effect") {
  const Space space{{uniform("x", 0, 1), uniform("idle", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const std::vector<Places> points = places_in(2, 30);
  std::vector<double> values;
  for (const Places& at : points) values.push_back(std::pow(at[0] - 0.4, 2));
  const Smoothness found = most_likely(axes, points, values);
  CHECK(found.lengths[1] > 4 * found.lengths[0]);
}

TEST_CASE("a trend is 0 for equal values, and for a single value") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const std::vector<Places> two{{0.2}, {0.8}}, one{{0.2}};
  CHECK(Trend(axes, two, {3, 3}).at({0.2}).mean == 0);
  CHECK(Trend(axes, one, {3}).at({0.2}).mean == 0);
  CHECK(Trend(axes, {}, {}, two).at({0.2}).deviation == 0);
}
