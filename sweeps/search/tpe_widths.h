// How wide the kernels of a Tree-structured Parzen Estimator are. Pure.
#pragma once

#include <vector>

#include "sweeps/search/tpe_density.h"

namespace mlk::sweeps {

// For few points, the good ones: on all axes the same, by the distance to the second nearest of the others,
// so that groups far from each other stay apart, and a group that draws together gets narrow kernels.
void widen_by_neighbours(const std::vector<Axis>& axes, std::vector<Observation>& observations);

// For many points, the others: on each axis by the gaps to the values below and above (Bergstra et al. 2011).
void widen_by_gaps(const std::vector<Axis>& axes, std::vector<Observation>& observations);

}  // namespace mlk::sweeps
