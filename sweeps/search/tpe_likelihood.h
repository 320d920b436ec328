// Estimates how smooth the function behind some values is: the distance over which values are correlated, and
// the noise. Only the trend of a search uses this estimate. Pure.
#pragma once

#include <vector>

#include "sweeps/search/tpe_density.h"
#include "sweeps/space/axis.h"

namespace mlk::sweeps {

// The assumptions of a trend about the function.
struct Smoothness {
  enum class Kind {
    very_smooth,  // the squared exponential
    rough,        // Matérn's kernel with nu = 5/2: the function has two derivatives
  };
  Kind kind = Kind::very_smooth;
  std::vector<double> lengths;  // one for each axis, as shares of the axis
  double noise = 0.01;          // as a share of the variance

  // The covariance of the values at two places, without noise. The scale is such that a value with noise has
  // variance 1.
  double covariance(const std::vector<Axis>& axes, const Places& a, const Places& b) const;
};

// The most likely smoothness for these values of mean 0 (Rasmussen and Williams 2006, chapter 5). A prior
// makes unusual lengths and noise unlikely without evidence. If there are many points, uses only a part of
// them: one half are the best points, and the other half is an even sample of the rest. The points must be
// sorted with the smallest values first.
Smoothness most_likely(const std::vector<Axis>& axes, const std::vector<Places>& points,
                       const std::vector<double>& values);

}  // namespace mlk::sweeps
