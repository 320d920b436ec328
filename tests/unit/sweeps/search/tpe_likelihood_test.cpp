#include "sweeps/search/tpe_likelihood.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "sweeps/space/counter_random.h"
#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/tpe_likelihood");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::uniform;

namespace {

using Smooth = Smoothness::Kind;

// The likeliest smoothness of values that lie at equal distances on one axis. The values are shifted to mean
// 0, and sorted so that the smallest come first, as in the search.
Smoothness smoothness_of(const std::vector<double>& values) {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  double mean = 0;
  for (const double each : values) mean += each / static_cast<double>(values.size());
  std::vector<std::pair<double, double>> sorted;  // value, place
  for (std::size_t i = 0; i < values.size(); ++i)
    sorted.emplace_back(values[i] - mean,
                        (static_cast<double>(i) + 0.5) / static_cast<double>(values.size()));
  std::sort(sorted.begin(), sorted.end());
  std::vector<Places> places;
  std::vector<double> centred;
  for (const auto& [value, place] : sorted) {
    places.push_back({place});
    centred.push_back(value);
  }
  return most_likely(axes, places, centred);
}

std::vector<double> waves(std::size_t count, double periods, double noise = 0) {
  CounterRandom random(1, 2);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    values.push_back(std::sin(6.2832 * periods * x) + noise * random.normal());
  }
  return values;
}

}  // namespace

TEST_CASE("covariance() depends on the distance on each axis, divided by the length of this axis") {
  const Space space{{uniform("x", 0, 1), choice("a", {"p", "q"})}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const Smoothness smooth{Smooth::very_smooth, {0.5, 2}, 0.1};
  const auto of_squares = [](double squares) { return 0.9 * std::exp(-0.5 * squares); };
  const auto at = [&](const Places& a, const Places& b) { return smooth.covariance(axes, a, b); };
  CHECK(at({0.2, 0.25}, {0.2, 0.25}) == doctest::Approx(0.9));
  CHECK(at({0.2, 0.25}, {0.7, 0.25}) == doctest::Approx(of_squares(1)));
  CHECK(at({0.2, 0.25}, {0.2, 0.75}) == doctest::Approx(of_squares(0.25 / 4)));
  CHECK(at({0.2, 0.25}, {0.7, 0.75}) == doctest::Approx(of_squares(1 + 0.25 / 4)));
  CHECK(at({absent, 0.25}, {absent, 0.25}) == doctest::Approx(0.9));
  CHECK(at({absent, 0.25}, {0.4, 0.25}) == doctest::Approx(of_squares(4.0 / 6)));
  CHECK(at({0.4, 0.25}, {absent, 0.25}) == doctest::Approx(of_squares(4.0 / 6)));
  CHECK(at({0.4, absent}, {0.4, 0.25}) == doctest::Approx(of_squares(0.25 / 6)));
}

TEST_CASE("covariance() of a rough function is the Matern covariance with parameter 5/2") {
  const Space space{{uniform("x", 0, 1)}, {}};
  const std::vector<Axis> axes = axes_of(space);
  const Smoothness rough{Smooth::rough, {0.25}, 0.2};
  CHECK(rough.covariance(axes, {0.5}, {0.5}) == doctest::Approx(0.8));
  const double r = std::sqrt(5.0);
  CHECK(rough.covariance(axes, {0.5}, {0.75}) == doctest::Approx(0.8 * (1 + r + 5.0 / 3) * std::exp(-r)));
}

TEST_CASE("the likeliest smoothness has more noise for noisy values than for smooth values") {
  const Smoothness slow = smoothness_of(waves(30, 0.5)), noisy = smoothness_of(waves(30, 0.5, 0.5));
  CHECK(slow.noise < 0.01);
  CHECK(noisy.noise > 10 * slow.noise);
  CHECK(slow.kind == Smooth::very_smooth);
}

TEST_CASE("the likeliest smoothness of up to 500 smooth points has little noise and a short length") {
  for (const std::size_t count : {71u, 140u, 500u}) {
    const Smoothness found = smoothness_of(waves(count, 2));
    CHECK(found.noise < 0.01);
    CHECK(found.lengths[0] < 1);
  }
}

TEST_CASE("the likeliest smoothness has lengths and noise within bounds for any values") {
  CounterRandom random(3, 3);
  std::vector<double> noise, steps;
  for (int i = 0; i < 40; ++i) {
    noise.push_back(random.normal());
    steps.push_back(i % 2 == 0 ? 1 : -1);
  }
  for (const std::vector<double>& values : {noise, steps, waves(40, 0.05)}) {
    const Smoothness found = smoothness_of(values);
    CHECK(found.lengths[0] >= 0.03);
    CHECK(found.lengths[0] <= 20);
    CHECK(found.noise >= 1e-4);
    CHECK(found.noise <= 0.8);
  }
}
