// The densities of a Tree-structured Parzen Estimator. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "sweeps/space/axis.h"
#include "sweeps/space/counter_random.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

// A point by the places of its values on the axes.
using Places = std::vector<double>;
constexpr double absent = -1;  // the place of a parameter whose conditions do not hold

struct PlacedPoint {
  Point point;
  Places places;
};

// A value that an axis does not have is absent.
Places places_of(const std::vector<Axis>& axes, const Point& point);

// The point whose parameters have the places that `choose` gives for the number of an axis. It is asked for
// those only whose conditions hold, in the order of the space.
PlacedPoint point_at(const std::vector<Axis>& axes, const std::function<double(std::size_t)>& choose);

struct Observation {
  Places places;
  double weight = 1;
  std::vector<double> widths;  // of its kernel, on each axis in order, as a share of it
};

// A mixture of a kernel around each observation and of the uniform density, the prior. A kernel is a product:
// a truncated normal density for each axis in order, and one that prefers the same value for each other. For
// a parameter that its observation does not have it is uniform, so that points with different parameters
// share what they have in common.
class Density {
 public:
  // The axes must live as long. `prior_weight` is above 0.
  Density(const std::vector<Axis>& axes, const std::vector<Observation>& observations, double prior_weight);

  // The logarithm. On axes with cells of probabilities, on others of a density over [0, 1].
  double log_at(const Places& places) const;

  PlacedPoint draw(CounterRandom& random) const;

 private:
  struct Kernel {
    double center, width;
    double log_scale;  // what makes the normal curve a density
  };
  Kernel kernel_of(const Observation& observation, std::size_t axis) const;
  std::vector<double> logs_of_cells(std::size_t axis) const;
  std::vector<double> logs_of_words(std::size_t axis) const;
  // Adds to the logarithm of each observation that of its kernel on an axis.
  void add_kernels(std::size_t axis, double place, std::vector<double>& logs) const;
  double draw_from(const Kernel& kernel, const Axis& axis, CounterRandom& random) const;

  const std::vector<Axis>& axes_;
  std::vector<double> log_weights_;           // of the observations, and of the prior last
  std::vector<double> cumulated_;             // of the observations
  std::vector<std::vector<Kernel>> kernels_;  // by axis and observation
  std::vector<std::vector<double>>
      cells_;     // of words, and of an ordered axis with few: by cell and observation
  double other_;  // the chance of another value on an axis without order
};

}  // namespace mlk::sweeps
