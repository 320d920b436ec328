// The densities of a Tree-structured Parzen Estimator. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "sweeps/space/axis.h"
#include "sweeps/space/counter_random.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

// The places of a point's values on the axes.
using Places = std::vector<double>;
constexpr double absent = -1;  // the place of a parameter that the point does not have

struct PlacedPoint {
  Point point;
  Places places;
};

// The place of a value that is not on its axis is also `absent`.
Places places_of(const std::vector<Axis>& axes, const Point& point);

// Builds a point from places: `choose` gets the index of an axis, and returns a place on this axis. It is
// called in the order of the space, and only for parameters whose conditions hold.
PlacedPoint point_at(const std::vector<Axis>& axes, const std::function<double(std::size_t)>& choose);

struct Observation {
  Places places;
  double weight = 1;
  std::vector<double> widths;  // of the kernel, one for each axis, as shares of the axis
};

// A mixture of densities: the prior, which is uniform, and one kernel around each observation. A kernel is a
// product with one factor for each axis. For an ordered axis, the factor is a truncated normal density. For
// an axis without order, it is a density that prefers the observed value. For a parameter that the
// observation does not have, it is uniform, so points with different parameters still share information on
// their common parameters.
class Density {
 public:
  // The axes must outlive the density. `prior_weight` is above 0.
  Density(const std::vector<Axis>& axes, const std::vector<Observation>& observations, double prior_weight);

  // The logarithm of the mixture at these places: a probability on axes with cells, a density over [0, 1] on
  // other axes.
  double log_at(const Places& places) const;

  PlacedPoint draw(CounterRandom& random) const;

 private:
  struct Kernel {
    double center, width;
    double log_scale;  // normalises the normal curve to a density
  };
  Kernel kernel_of(const Observation& observation, std::size_t axis) const;
  std::vector<double> logs_of_cells(std::size_t axis) const;
  std::vector<double> logs_of_words(std::size_t axis) const;
  // For each observation, adds the logarithm of its kernel on this axis to its entry in `logs`.
  void add_kernels(std::size_t axis, double place, std::vector<double>& logs) const;
  double draw_from(const Kernel& kernel, const Axis& axis, CounterRandom& random) const;

  const std::vector<Axis>& axes_;
  std::vector<double> log_weights_;           // of the observations, then of the prior
  std::vector<double> cumulated_;             // the weights of the observations, summed from the first one on
  std::vector<std::vector<Kernel>> kernels_;  // by axis and observation
  // For each axis, one number for each pair of a cell and a kernel: the logarithm of the part of the kernel
  // that is in the cell. Empty for a smooth axis (is_smooth()).
  std::vector<std::vector<double>> cells_;
  double other_;  // on an axis without order: the part of a kernel that is divided equally among all values
};

}  // namespace mlk::sweeps
