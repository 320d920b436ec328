#include "sweeps/search/tpe_trend.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mlk::sweeps {
namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += each;
  return sum / static_cast<double>(values.size());
}

// If the noise is more than the share `noisy` of the variance, the logarithm would exaggerate a value that is
// good by luck. In this case the scale is nearly linear, except for values whose distance to the best value
// is more than `noisy_range` times the distance of the median.
constexpr double noisy = 0.02, noisy_range = 100;

// The values on a scale with mean 0 and variance 1. The scale is nearly logarithmic for values that are at
// least `range` times as far from the best value as the median is, so that differences between bad values
// count less. Empty if all values are equal.
std::vector<double> scaled(std::vector<double> values, double range) {
  if (values.empty()) return {};
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double low = sorted.front();
  double unit = sorted[(sorted.size() - 1) / 2] - low;
  if (unit <= 0) unit = sorted.back() - low;
  unit *= range;
  if (!(unit > 0) || !std::isfinite(unit)) return {};
  for (double& each : values) each = std::log1p((each - low) / unit);
  const double mean = mean_of(values);
  std::vector<double> squares;
  for (const double each : values) squares.push_back((each - mean) * (each - mean));
  const double deviation = std::sqrt(mean_of(squares));
  for (double& each : values) each = (each - mean) / deviation;
  return values;
}

}  // namespace

Trend::Trend(const std::vector<Axis>& axes, std::vector<Places> points, const std::vector<double>& values,
             const std::vector<Places>& running)
    : axes_(axes), points_(std::move(points)) {
  std::vector<double> targets = scaled(values, 1);
  if (targets.empty()) return;
  smoothness_ = most_likely(axes_, points_, targets);
  std::vector<double> wide = smoothness_.noise > noisy ? scaled(values, noisy_range) : std::vector<double>();
  if (!wide.empty()) {
    targets = std::move(wide);
    smoothness_ = most_likely(axes_, points_, targets);
  }
  points_.insert(points_.end(), running.begin(), running.end());
  factor_ = Triangle(points_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    double* const row = factor_.row(i);
    for (std::size_t j = 0; j < i; ++j) row[j] = smoothness_.covariance(axes_, points_[i], points_[j]);
    row[i] = 1;
  }
  factorise(factor_);
  coefficients_ = std::move(targets);
  solve_forward(factor_, coefficients_);
  solve_backward(factor_, coefficients_);
}

Trend::Guess Trend::at(const Places& places) const {
  if (coefficients_.empty()) return {0, 0};
  std::vector<double> covariances;
  covariances.reserve(points_.size());
  for (const Places& point : points_) covariances.push_back(smoothness_.covariance(axes_, places, point));
  const double mean = dot(coefficients_.data(), covariances.data(), coefficients_.size());
  solve_forward(factor_, covariances);
  const double variance =
      1 - smoothness_.noise - dot(covariances.data(), covariances.data(), covariances.size());
  return {mean, std::sqrt(std::max(variance, 0.0))};
}

}  // namespace mlk::sweeps
