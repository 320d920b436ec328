// The densities of a Tree-structured Parzen Estimator. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "sweeps/axis.h"
#include "sweeps/counter_random.h"
#include "sweeps/space.h"

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
};

// A mixture of a kernel around each observation and of the uniform density, the prior. A kernel is a product:
// a truncated normal density for each axis in order, and one that prefers the same value for others. For a
// parameter that its observation does not have it is uniform, so that points with different parameters share
// what they have in common.
class Density {
 public:
  Density(const std::vector<Axis>& axes, std::vector<Observation> observations, double prior_weight, int mode,
          double bw, double floor, double eps);

  double log_at(const Places& places) const;
  PlacedPoint draw(CounterRandom& random) const;

 private:
  struct Kernel {
    double center = absent, width = 1;
    double log_scale = 0;  // of the density
  };
  double log_kernel(const Kernel& kernel, const Axis& axis, double place) const;
  double draw_from(const Kernel& kernel, const Axis& axis, CounterRandom& random) const;

  const std::vector<Axis>& axes_;
  std::vector<double> log_weights_, cumulated_;  // of the observations, and of the prior last
  std::vector<std::vector<Kernel>> kernels_;     // by observation and axis
  double keep_ = 0.8;                            // the weight of the observed value on an axis without order
};

}  // namespace mlk::sweeps
