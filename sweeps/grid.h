// Grid search: all points of a space of lists and whole numbers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sweeps/space.h"

namespace mlk::sweeps {

// Whether each parameter has a list of values or is a whole number.
bool is_finite(const Space& space);

struct GridSize {
  std::uint64_t points = 0;
  bool exact = true;  // else there are at least so many
};

// How many points the space has, without building them: a parameter on which no condition depends is a
// factor. Exact up to 10^18, unless the conditions make too many cases. Throws Error{usage}, which names the
// parameter, when the space is not finite.
GridSize count_grid(const Space& space);

// The first `limit` points, the last parameter varying fastest and values in the order written. A parameter
// whose conditions do not hold is absent and adds no points; what `except` leaves out is skipped.
// Throws Error{usage}: as count_grid, and when nearly all combinations are left out, too many to look at.
std::vector<Point> grid_points(const Space& space, std::size_t limit);

}  // namespace mlk::sweeps
