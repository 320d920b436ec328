#include "sweeps/search/sobol.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sweeps/space/counter_random.h"

TEST_SUITE_BEGIN("sweeps/search/sobol");

using namespace mlk::sweeps;

namespace {

// The L2 star discrepancy of the points, by Warnock's formula: lower for more even points.
double discrepancy(const std::vector<std::vector<double>>& points) {
  const auto n = static_cast<double>(points.size());
  const std::size_t d = points[0].size();
  double single = 0, pairs = 0;
  for (const auto& x : points) {
    double product = 1;
    for (const double value : x) product *= (1 - value * value) / 2;
    single += product;
    for (const auto& y : points) {
      double both = 1;
      for (std::size_t i = 0; i < d; ++i) both *= 1 - std::max(x[i], y[i]);
      pairs += both;
    }
  }
  return std::sqrt(std::pow(3.0, -static_cast<double>(d)) - 2 / n * single + pairs / (n * n));
}

}  // namespace

TEST_CASE("in every dimension, each of 2^k equal intervals has one of the first 2^k Sobol points") {
  for (std::size_t dimension = 0; dimension < sobol_dimensions; ++dimension) {
    for (const std::uint32_t count : {16u, 256u}) {
      std::set<std::uint32_t> intervals;
      for (std::uint32_t i = 0; i < count; ++i)
        intervals.insert(static_cast<std::uint32_t>(sobol(7, dimension, i) * count));
      CHECK(intervals.size() == count);
    }
  }
}

TEST_CASE("each field of a 4 by 4 board has one of the first 16 Sobol points") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    std::set<std::pair<int, int>> fields;
    for (std::uint32_t i = 0; i < 16; ++i)
      fields.emplace(static_cast<int>(4 * sobol(seed, 0, i)), static_cast<int>(4 * sobol(seed, 1, i)));
    CHECK(fields.size() == 16);
  }
}

TEST_CASE("the dimensions of the Sobol sequence all differ") {
  std::set<std::vector<double>> sequences;
  for (std::size_t dimension = 0; dimension < sobol_dimensions + 5; ++dimension) {
    std::vector<double> sequence;
    for (std::uint32_t i = 0; i < 64; ++i) sequence.push_back(sobol(1, dimension, i));
    for (const double value : sequence) CHECK((value >= 0 && value < 1));
    sequences.insert(sequence);
  }
  CHECK(sequences.size() == sobol_dimensions + 5);
}

TEST_CASE("the same seed gives the same Sobol points, and another seed gives other points") {
  CHECK(sobol(1, 3, 9) == sobol(1, 3, 9));
  CHECK(sobol(1, 3, 9) != sobol(2, 3, 9));
  CHECK(sobol(1, 0, 0xffffffff) < 1);
}

TEST_CASE("Sobol points have a lower discrepancy than pseudo-random points") {
  constexpr std::size_t dimensions = 6;
  constexpr std::uint32_t count = 64;
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    std::vector<std::vector<double>> even(count), plain(count);
    CounterRandom random(seed, 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::size_t dimension = 0; dimension < dimensions; ++dimension) {
        even[i].push_back(sobol(seed, dimension, i));
        plain[i].push_back(random.uniform());
      }
    }
    CHECK(discrepancy(even) < 0.9 * discrepancy(plain));
  }
}
