// Quasi-random search: points that fill a space evenly. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "sweeps/axis.h"
#include "sweeps/space.h"

namespace mlk::sweeps {

// Distinct points of a space, none of them left out, one after the other. Which is the n-th depends on the
// space, the seed and n alone, so that a sweep can be extended. The space must live as long.
class RandomPoints {
 public:
  RandomPoints(const Space& space, std::uint64_t seed);

  // Nothing when the space has no more, or when many tries in a row found none.
  std::optional<Point> next();

 private:
  std::optional<Point> next_of_sequence();
  std::optional<Point> next_of_rest();

  const Space& space_;
  std::uint64_t seed_;
  std::vector<Axis> axes_;
  std::uint32_t index_ = 0;  // in the sequence of Sobol
  std::set<Point> given_;
  std::optional<std::vector<Point>> rest_;  // once the sequence hardly finds new ones; given from the back
};

// The first `count` of them; fewer when the space has fewer.
std::vector<Point> random_points(const Space& space, std::uint64_t seed, std::size_t count);

}  // namespace mlk::sweeps
