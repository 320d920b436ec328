#include "sweeps/search/tpe_likelihood.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sweeps/search/triangle.h"

namespace mlk::sweeps {
namespace {

constexpr double different_words = 0.25, one_without = 1.0 / 6;  // squares of distances on an axis

// Chosen by measuring on the functions of `make bench`. Distances grow with the root of the number of axes,
// so the code multiplies lengths by this root.
constexpr std::size_t most_compared = 70;
constexpr double first_lengths[] = {0.15, 0.3, 0.6, 1.2};
constexpr double first_noises[] = {0.001, 0.03, 0.3};
constexpr double usual_length = 0.5, length_spread = 0.8;  // the prior: log(length) is normally distributed
constexpr double usual_noise = 0.01, noise_spread = 2;
constexpr double least_length = 0.03, largest_length = 20, least_noise = 1e-4, largest_noise = 0.8;
constexpr double length_factor = 2, noise_factor = 3;
constexpr int rounds = 2;

double squared_distance(const Axis& axis, double a, double b) {
  if (a == b) return 0;
  if (a == absent || b == absent) return one_without;
  return axis.is_ordered() ? (a - b) * (a - b) : different_words;
}

double correlation(Smoothness::Kind kind, double squares) {
  if (kind == Smoothness::Kind::very_smooth) return std::exp(-0.5 * squares);
  const double r = std::sqrt(5 * squares);
  return (1 + r + r * r / 3) * std::exp(-r);
}

double log_of_prior(double value, double usual, double spread) {
  const double z = std::log(value / usual) / spread;
  return -0.5 * z * z;
}

double root_of_axes(std::size_t axes) {
  return std::sqrt(static_cast<double>(std::max<std::size_t>(axes, 1)));
}

// The likelihood of the values of some points. The distances of all pairs of points are computed once.
class Likelihood {
 public:
  Likelihood(const std::vector<Axis>& axes, const std::vector<Places>& points, std::vector<double> values)
      : distances_(axes.size()), values_(std::move(values)) {
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      for (std::size_t i = 0; i < points.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j)
          distances_[axis].push_back(squared_distance(axes[axis], points[i][axis], points[j][axis]));
      }
    }
  }

  // The logarithm of the profile likelihood plus the logarithm of the prior. The profile likelihood uses the
  // common variance that maximises the likelihood.
  double log_of(const Smoothness& smoothness) const {
    const std::size_t size = values_.size();
    const std::vector<double> sums = weighted_distances(smoothness.lengths);
    Triangle matrix(size);
    std::size_t pair = 0;
    for (std::size_t i = 0; i < size; ++i) {
      double* const row = matrix.row(i);
      for (std::size_t j = 0; j < i; ++j)
        row[j] = (1 - smoothness.noise) * correlation(smoothness.kind, sums[pair++]);
      row[i] = 1;
    }
    factorise(matrix);
    std::vector<double> solved = values_;
    solve_forward(matrix, solved);
    double log = -0.5 * static_cast<double>(size) * std::log(dot(solved.data(), solved.data(), size));
    for (std::size_t i = 0; i < size; ++i) log -= std::log(matrix.row(i)[i]);
    const double usual = usual_length * root_of_axes(distances_.size());
    for (const double length : smoothness.lengths) log += log_of_prior(length, usual, length_spread);
    return log + log_of_prior(smoothness.noise, usual_noise, noise_spread);
  }

 private:
  std::vector<double> weighted_distances(const std::vector<double>& lengths) const {
    std::vector<double> sums(values_.size() * (values_.size() - 1) / 2);
    for (std::size_t axis = 0; axis < distances_.size(); ++axis) {
      const double factor = 1 / (lengths[axis] * lengths[axis]);
      for (std::size_t pair = 0; pair < sums.size(); ++pair) sums[pair] += factor * distances_[axis][pair];
    }
    return sums;
  }

  std::vector<std::vector<double>> distances_;  // squares, by axis and pair
  std::vector<double> values_;
};

// The likelihood of at most `most_compared` points: the best points, and an even sample of the others.
Likelihood likelihood_of(const std::vector<Axis>& axes, const std::vector<Places>& points,
                         const std::vector<double>& values) {
  const std::size_t count = std::min(points.size(), most_compared);
  const std::size_t best = points.size() == count ? count : count / 2;
  std::vector<Places> some_points;
  std::vector<double> some_values;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i < best ? i : best + (i - best) * (points.size() - best) / (count - best);
    some_points.push_back(points[at]);
    some_values.push_back(values[at]);
  }
  return {axes, some_points, std::move(some_values)};
}

// Hill climbing: changes one value at a time. Begins with the best smoothness that take_if_better() was
// given.
class Climb {
 public:
  explicit Climb(const Likelihood& likelihood) : likelihood_(likelihood) {}

  bool take_if_better(const Smoothness& other) {
    const double log = likelihood_.log_of(other);
    if (!(log > most_)) return false;
    most_ = log;
    best_ = other;
    return true;
  }

  const Smoothness& highest(std::size_t axes) {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t axis = 0; axis < axes; ++axis) change_length(axis);
      change_noise();
    }
    return best_;
  }

 private:
  void change_length(std::size_t axis) {
    for (const double by : {length_factor, 1 / length_factor}) {
      bool moved = false;
      for (Smoothness next = best_;; moved = true) {
        next.lengths[axis] *= by;
        const bool allowed = next.lengths[axis] >= least_length && next.lengths[axis] <= largest_length;
        if (!allowed || !take_if_better(next)) break;
      }
      if (moved) return;
    }
  }

  void change_noise() {
    for (const double by : {noise_factor, 1 / noise_factor}) {
      Smoothness next = best_;
      next.noise *= by;
      const bool allowed = next.noise >= least_noise && next.noise <= largest_noise;
      if (allowed && take_if_better(next)) return;
    }
  }

  const Likelihood& likelihood_;
  Smoothness best_;
  double most_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

double Smoothness::covariance(const std::vector<Axis>& axes, const Places& a, const Places& b) const {
  double sum = 0;
  for (std::size_t i = 0; i < axes.size(); ++i)
    sum += squared_distance(axes[i], a[i], b[i]) / (lengths[i] * lengths[i]);
  return (1 - noise) * correlation(kind, sum);
}

Smoothness most_likely(const std::vector<Axis>& axes, const std::vector<Places>& points,
                       const std::vector<double>& values) {
  const Likelihood likelihood = likelihood_of(axes, points, values);
  Climb climb(likelihood);
  for (const Smoothness::Kind kind : {Smoothness::Kind::rough, Smoothness::Kind::very_smooth}) {
    for (const double length : first_lengths) {
      for (const double noise : first_noises)
        climb.take_if_better(
            {kind, std::vector<double>(axes.size(), length * root_of_axes(axes.size())), noise});
    }
  }
  return climb.highest(axes.size());
}

}  // namespace mlk::sweeps
