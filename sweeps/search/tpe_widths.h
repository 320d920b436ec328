// The widths of the kernels of a Tree-structured Parzen Estimator. Pure.
#pragma once

#include <vector>

#include "sweeps/search/tpe_density.h"

namespace mlk::sweeps {

// Sets the widths for the good points, which are few. A point has the same width on all axes: its distance to
// the second nearest of the other good points. So groups of points that are far from each other stay
// separate, and a group whose points come closer gets narrow kernels.
void widen_by_neighbours(const std::vector<Axis>& axes, std::vector<Observation>& observations);

// Sets the widths for the other points, which are many. The width of a point on each axis follows from the
// gaps to the nearest points below and above it (Bergstra et al. 2011).
void widen_by_gaps(const std::vector<Axis>& axes, std::vector<Observation>& observations);

}  // namespace mlk::sweeps
