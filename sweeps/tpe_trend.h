// A smooth function that is fitted to noisy values, for search by a Tree-structured Parzen Estimator. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "sweeps/axis.h"
#include "sweeps/tpe_density.h"

namespace mlk::sweeps {

// A Gaussian process (Rasmussen and Williams 2006). How far apart values still depend on each other, and how
// much of them is noise, is chosen so that the values become as likely as possible.
class Trend {
 public:
  // Of finite values, small ones good; as many as points. The axes and points must live as long.
  Trend(const std::vector<Axis>& axes, const std::vector<Places>& points, const std::vector<double>& values);

  struct Guess {
    double mean, deviation;
  };
  // What is expected there without noise, in standard deviations of all values above their mean; the values
  // are taken on a scale that is about logarithmic for bad ones. All 0 when the values are equal.
  Guess at(const Places& places) const;

 private:
  // A lower triangle of a symmetric matrix, one row after the other.
  class Triangle {
   public:
    explicit Triangle(std::size_t size) : cells_(size * (size + 1) / 2) {}
    double* row(std::size_t i) { return cells_.data() + i * (i + 1) / 2; }
    const double* row(std::size_t i) const { return cells_.data() + i * (i + 1) / 2; }

   private:
    std::vector<double> cells_;
  };

  struct Fit {
    double length = 1, noise = 0;
    Triangle factor{0};                // Cholesky's, of the covariances of the values
    std::vector<double> coefficients;  // of the covariances of a place with the points
    double log_likelihood = 0;
  };
  double covariance(const Places& a, const Places& b, const Fit& fit) const;
  Fit fitted(const std::vector<double>& values, double length, double noise) const;
  static void factorise(Triangle& matrix, std::size_t size);

  const std::vector<Axis>& axes_;
  const std::vector<Places>& points_;
  Fit best_;
};

}  // namespace mlk::sweeps
