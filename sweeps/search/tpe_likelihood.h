// How far apart values of a smooth function still depend on each other, and how likely given values make an
// assumption about that. Internal to the trend of a search. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "sweeps/search/tpe_density.h"
#include "sweeps/space/axis.h"

namespace mlk::sweeps {

// What a trend assumes of the function.
struct Smoothness {
  enum class Kind {
    very_smooth,  // the squared exponential
    rough,        // Matérn's with 5/2: two derivatives
  };
  Kind kind = Kind::very_smooth;
  std::vector<double> lengths;  // one for each axis, as shares of it
  double noise = 0.01;          // as a share of the variance

  // The covariance of the values at two places without noise; 1 is the variance of a value with it.
  double covariance(const std::vector<Axis>& axes, const Places& a, const Places& b) const;
};

// The smoothness by which these values, of mean 0, become most likely (Rasmussen and Williams 2006, chapter
// 5), with a prior that wants reasons for lengths and noise out of the ordinary. Of many points some are
// looked at: the best half of them and the rest evenly. The points come with the smallest values first.
Smoothness most_likely(const std::vector<Axis>& axes, const std::vector<Places>& points,
                       const std::vector<double>& values);

}  // namespace mlk::sweeps
