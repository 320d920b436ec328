// A smooth function that is fitted to noisy values, for search by a Tree-structured Parzen Estimator. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "sweeps/search/tpe_density.h"
#include "sweeps/search/tpe_likelihood.h"
#include "sweeps/search/triangle.h"
#include "sweeps/space/axis.h"

namespace mlk::sweeps {

// A Gaussian process (Rasmussen and Williams 2006), as smooth along each axis as makes the values likely.
class Trend {
 public:
  // `points` have these finite values, small ones good and first. `running` are points whose values are not
  // known yet: near them the trend is more certain, and what it expects there stays as it is, as if they had
  // their expected values (the believer of Ginsbourger et al. 2010). The axes must live as long.
  Trend(const std::vector<Axis>& axes, std::vector<Places> points, const std::vector<double>& values,
        const std::vector<Places>& running = {});

  struct Guess {
    double mean, deviation;
  };
  // What is expected there without noise, in standard deviations of all values above their mean; the values
  // are taken on a scale that is about logarithmic for bad ones, or, where they are noisy, for very bad ones
  // only. All 0 when the values are equal.
  Guess at(const Places& places) const;

 private:
  const std::vector<Axis>& axes_;
  std::vector<Places> points_;  // with a value, then those that run
  Smoothness smoothness_;
  Triangle factor_{0};                // Cholesky's, of the covariances of the points
  std::vector<double> coefficients_;  // of the covariances of a place with the points that have a value
};

}  // namespace mlk::sweeps
