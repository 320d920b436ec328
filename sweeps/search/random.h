// Quasi-random search: points that fill a space evenly. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "sweeps/space/axis.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

// Generates distinct points of a space, one after the other. Skips points that `except` excludes. The n-th
// point depends only on the space, the seed and n, so a sweep can get more trials later and keep its first
// ones. The space must outlive this object.
class RandomPoints {
 public:
  RandomPoints(const Space& space, std::uint64_t seed);

  // nullopt if the space has no more points. Also nullopt if many tries in a row found no new point and the
  // space is too large to be listed.
  std::optional<Point> next();

 private:
  std::optional<Point> next_of_sequence();
  std::optional<Point> next_of_rest();

  const Space& space_;
  std::uint64_t seed_;
  std::vector<Axis> axes_;
  std::uint32_t index_ = 0;  // of the next point in Sobol's sequence
  std::set<Point> given_;
  std::optional<std::vector<Point>>
      rest_;  // shuffled points of a small space, used when the sequence finds no new points
};

// The first `count` points of RandomPoints, or fewer if the space has fewer.
std::vector<Point> random_points(const Space& space, std::uint64_t seed, std::size_t count);

}  // namespace mlk::sweeps
