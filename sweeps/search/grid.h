// Grid search: all points of a space of lists and whole numbers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sweeps/space/space.h"

namespace mlk::sweeps {

// Whether each parameter has a list of values or is a whole number.
bool is_finite(const Space& space);

struct GridSize {
  std::uint64_t points = 0;
  bool exact = true;  // false: `points` is only a lower bound
};

// Counts the points of the space without building them: values that every condition treats alike are counted
// together. The count is exact if it is below 10^18 and the conditions do not make too many cases. If the
// space is not finite, throws Error{usage} that names the parameter.
GridSize count_grid(const Space& space);

// The first `limit` points. The last parameter varies fastest, and the values of a list keep the user's
// order. A parameter whose conditions do not hold is absent and adds no points; points that `except` excludes
// are skipped. Throws Error{usage} as count_grid() does, and also if `except` excludes so many combinations
// that the search for the points takes too long.
std::vector<Point> grid_points(const Space& space, std::size_t limit);

}  // namespace mlk::sweeps
