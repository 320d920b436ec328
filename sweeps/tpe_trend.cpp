#include "sweeps/tpe_trend.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mlk::sweeps {
namespace {

constexpr double lengths[] = {0.15, 0.3, 0.6, 1.2};              // as shares of an axis
constexpr double noises[] = {0.001, 0.01, 0.05, 0.2, 0.5};       // as shares of the variance
constexpr double different_words = 0.25, one_without = 1.0 / 6;  // squares of distances on an axis

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += each;
  return sum / static_cast<double>(values.size());
}

// About logarithmic, so that differences between bad values count less; with mean 0 and variance 1. Empty if
// all values are equal.
std::vector<double> scaled(std::vector<double> values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double low = sorted.front();
  double unit = sorted[(sorted.size() - 1) / 2] - low;
  if (unit <= 0) unit = sorted.back() - low;
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

Trend::Trend(const std::vector<Axis>& axes, const std::vector<Places>& points,
             const std::vector<double>& values)
    : axes_(axes), points_(points) {
  const std::vector<double> targets = scaled(values);
  if (targets.empty()) return;
  for (const double length : lengths) {
    for (const double noise : noises) {
      Fit fit = fitted(targets, length, noise);
      if (best_.coefficients.empty() || fit.log_likelihood > best_.log_likelihood) best_ = std::move(fit);
    }
  }
}

Trend::Guess Trend::at(const Places& places) const {
  if (best_.coefficients.empty()) return {0, 0};
  double mean = 0, variance = 1 - best_.noise;
  std::vector<double> solved(points_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const double* const row = best_.factor.row(i);
    solved[i] = covariance(places, points_[i], best_);
    mean += best_.coefficients[i] * solved[i];
    for (std::size_t j = 0; j < i; ++j) solved[i] -= row[j] * solved[j];
    solved[i] /= row[i];
    variance -= solved[i] * solved[i];
  }
  return {mean, std::sqrt(std::max(variance, 0.0))};
}

double Trend::covariance(const Places& a, const Places& b, const Fit& fit) const {
  double sum = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (a[i] == absent || b[i] == absent)
      sum += one_without;
    else
      sum += axes_[i].is_ordered() ? (a[i] - b[i]) * (a[i] - b[i]) : different_words;
  }
  const auto count = static_cast<double>(std::max<std::size_t>(axes_.size(), 1));
  return (1 - fit.noise) * std::exp(-0.5 * sum / (fit.length * fit.length * count));
}

// Cholesky's, in place. The matrix has noise on its diagonal, so that it is positive definite.
void Trend::factorise(Triangle& matrix, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    double* const row = matrix.row(i);
    for (std::size_t j = 0; j <= i; ++j) {
      const double* const other = matrix.row(j);
      double sum = row[j];
      for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = i == j ? std::sqrt(std::max(sum, 1e-10)) : sum / other[j];
    }
  }
}

// The likelihood is the profile likelihood: that of the common variance which maximises it.
Trend::Fit Trend::fitted(const std::vector<double>& values, double length, double noise) const {
  const std::size_t size = values.size();
  Fit fit{length, noise, Triangle(size), values};
  for (std::size_t i = 0; i < size; ++i) {
    double* const row = fit.factor.row(i);
    for (std::size_t j = 0; j < i; ++j) row[j] = covariance(points_[i], points_[j], fit);
    row[i] = 1;
  }
  factorise(fit.factor, size);
  std::vector<double>& solved = fit.coefficients;
  double squares = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double* const row = fit.factor.row(i);
    for (std::size_t j = 0; j < i; ++j) solved[i] -= row[j] * solved[j];
    solved[i] /= row[i];
    squares += solved[i] * solved[i];
    fit.log_likelihood -= std::log(row[i]);
  }
  fit.log_likelihood -= 0.5 * static_cast<double>(size) * std::log(squares);
  for (std::size_t i = size; i-- > 0;) {
    const double* const row = fit.factor.row(i);
    solved[i] /= row[i];
    for (std::size_t j = 0; j < i; ++j) solved[j] -= row[j] * solved[i];
  }
  return fit;
}

}  // namespace mlk::sweeps
