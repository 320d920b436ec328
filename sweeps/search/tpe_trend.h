// A smooth function that is fitted to noisy values, for search by a Tree-structured Parzen Estimator. Pure.
#pragma once

#include <vector>

#include "sweeps/search/tpe_density.h"
#include "sweeps/search/tpe_likelihood.h"
#include "sweeps/search/triangle.h"
#include "sweeps/space/axis.h"

namespace mlk::sweeps {

// A Gaussian process (Rasmussen and Williams 2006). It has the smoothness that makes the values most likely,
// with a separate length for each axis.
class Trend {
 public:
  // `values`: the finite values of `points`; small values are good and come first. `running`: points without
  // a value yet. The trend treats each of them as if it had its expected value (the believer of Ginsbourger
  // et al. 2010): near these points the trend is more certain, and its mean does not change. The axes must
  // outlive the trend.
  Trend(const std::vector<Axis>& axes, std::vector<Places> points, const std::vector<double>& values,
        const std::vector<Places>& running = {});

  struct Guess {
    double mean, deviation;
  };
  // The expected value at these places, without noise. Its unit is the standard deviation of all values, and
  // 0 is their mean. Bad values are on a nearly logarithmic scale; if the values are noisy, only very bad
  // values are. `mean` and `deviation` are 0 if all values are equal.
  Guess at(const Places& places) const;

 private:
  const std::vector<Axis>& axes_;
  std::vector<Places> points_;  // points with a value, then running points
  Smoothness smoothness_;
  Triangle factor_{0};                // the Cholesky factor of the covariances of the points
  std::vector<double> coefficients_;  // one for each point with a value; at() multiplies them by covariances
};

}  // namespace mlk::sweeps
