#include "sweeps/results/importance.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "sweeps/results/importance_forest.h"

namespace mlk::sweeps {
namespace {

constexpr std::size_t most_rows = 1000;
constexpr std::size_t trees = 32;
constexpr std::size_t paired = 4;              // parameters whose interactions are computed
constexpr double smallest_interaction = 0.01;  // of the variance
constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

using Leaves = std::vector<Leaf>;

// The number of equal parts of [0, 1], one for each value of the parameter. 0 for a continuous range, and for
// logarithmic whole numbers, whose parts are not equal.
double value_count(const Parameter& parameter) {
  if (parameter.kind == Parameter::Kind::choice) return static_cast<double>(parameter.values.size());
  return parameter.kind == Parameter::Kind::integer ? parameter.high - parameter.low + 1 : 0;
}

double in_unit(double value, double low, double high) {
  return high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0.5;
}

// Maps the parameter's value to a number from 0 to 1, such that a uniform choice from the parameter's range
// becomes uniform in [0, 1].
double encoded(const Parameter& parameter, const Point& point) {
  const auto found = point.find(parameter.path);
  if (found == point.end()) return no_value;
  if (parameter.kind == Parameter::Kind::choice) {
    const auto value = std::find(parameter.values.begin(), parameter.values.end(), found->second);
    if (value == parameter.values.end()) return no_value;
    return (static_cast<double>(value - parameter.values.begin()) + 0.5) / value_count(parameter);
  }
  if (!found->second.is_number()) return no_value;
  const double value = found->second.get<double>();
  if (!std::isfinite(value)) return no_value;
  switch (parameter.kind) {
    case Parameter::Kind::integer:
      return in_unit(value, parameter.low - 0.5, parameter.high + 0.5);
    case Parameter::Kind::log_integer:
      return value > 0 && parameter.low > 0
                 ? in_unit(std::log(value), std::log(parameter.low - 0.5), std::log(parameter.high + 0.5))
                 : no_value;
    case Parameter::Kind::log_uniform:
      return value > 0 && parameter.low > 0
                 ? in_unit(std::log(value), std::log(parameter.low), std::log(parameter.high))
                 : no_value;
    default:
      return in_unit(value, parameter.low, parameter.high);
  }
}

double random_encoded(const Parameter& parameter, std::mt19937_64& random) {
  const double count = value_count(parameter), unit = random_unit(random);
  return count >= 1 ? (std::floor(unit * count) + 0.5) / count : unit;
}

// Divides by the largest absolute value, so that squares neither overflow nor underflow. False if all values
// are 0.
bool scale(std::vector<double>& y) {
  double largest = 0;
  for (const double value : y) largest = std::max(largest, std::abs(value));
  for (double& value : y) value = largest > 0 ? value / largest : 0;
  return largest > 0;
}

// Clips outliers on the worse side, then makes the mean 0 and the variance 1. False if all values are equal.
bool standardise(std::vector<double>& y, const Objective& objective) {
  if (!scale(y)) return false;
  if (objective.goal == Objective::Goal::maximize) {
    for (double& value : y) value = -value;
  }
  std::vector<double> sorted = y;
  std::sort(sorted.begin(), sorted.end());
  const double lower = sorted[sorted.size() / 4], upper = sorted[sorted.size() * 3 / 4];
  if (upper > lower) {
    for (double& value : y) value = std::min(value, upper + 3 * (upper - lower));
  }
  scale(y);  // the clipped values may have been far larger than all others
  const double count = static_cast<double>(y.size());
  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double squares = 0;
  for (const double value : y) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / count);
  if (!(deviation > 1e-12)) return false;
  for (double& value : y) value = (value - mean) / deviation;
  return true;
}

Samples samples_of(const Space& space, const std::vector<Trial>& trials) {
  std::vector<const Trial*> usable;
  for (const Trial& trial : trials) {
    if (trial.state == TrialState::succeeded && trial.objective && std::isfinite(*trial.objective))
      usable.push_back(&trial);
  }
  const std::size_t rows = std::min(usable.size(), most_rows);
  Samples samples;
  samples.width = space.parameters.size();
  for (std::size_t i = 0; i < rows; ++i) {
    const Trial& trial = *usable[i * usable.size() / rows];
    samples.y.push_back(*trial.objective);
    for (const Parameter& parameter : space.parameters) samples.x.push_back(encoded(parameter, trial.point));
  }
  return samples;
}

// For each row, the sum and the number of the out-of-bag predictions: those by trees that were not trained on
// this row.
struct Held {
  std::vector<double> sum, count;

  double fit(const std::vector<double>& y) const {
    double errors = 0, squares = 0, rows = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (count[i] == 0) continue;
      errors += (y[i] - sum[i] / count[i]) * (y[i] - sum[i] / count[i]);
      squares += y[i] * y[i];
      ++rows;
    }
    return rows > 0 && squares > 0 ? 1 - errors / squares : 0;
  }
};

// Grows the forest and returns the leaves of every tree. For each tree, new random values replace no_value.
std::vector<Leaves> grow_forest(const Space& space, const Samples& samples, double& fit) {
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same results always have the same importance
  std::mt19937_64 random(20140621);
  const std::size_t rows = samples.y.size();
  Held held{std::vector<double>(rows, 0), std::vector<double>(rows, 0)};
  std::vector<Leaves> forest;
  for (std::size_t t = 0; t < trees; ++t) {
    Samples filled = samples;
    for (std::size_t i = 0; i < filled.x.size(); ++i) {
      if (std::isnan(filled.x[i])) filled.x[i] = random_encoded(space.parameters[i % samples.width], random);
    }
    std::vector<std::size_t> bag(rows);
    std::vector<bool> seen(rows, false);
    for (std::size_t& each : bag) {
      each = random_below(random, rows);
      seen[each] = true;
    }
    const Tree tree(filled, std::move(bag), random);
    for (std::size_t i = 0; i < rows; ++i) {
      if (seen[i]) continue;
      held.sum[i] += tree.predict(filled.row(i));
      ++held.count[i];
    }
    forest.push_back(tree.leaves());
  }
  fit = held.fit(samples.y);
  return forest;
}

// The ends of all boxes along one side of the cube, ascending.
struct Edges {
  std::vector<double> at;

  Edges(const Leaves& leaves, std::size_t side) {
    for (const Leaf& leaf : leaves) {
      at.push_back(leaf.low[side]);
      at.push_back(leaf.high[side]);
    }
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
  }
  std::size_t index(double edge) const {
    return static_cast<std::size_t>(std::lower_bound(at.begin(), at.end(), edge) - at.begin());
  }
  double length(std::size_t i) const { return at[i + 1] - at[i]; }
};

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments_of(const Leaves& leaves) {
  double mean = 0, squares = 0;
  for (const Leaf& leaf : leaves) mean += leaf.volume * leaf.value;
  for (const Leaf& leaf : leaves) squares += leaf.volume * (leaf.value - mean) * (leaf.value - mean);
  return {mean, squares};
}

// The variance of the tree's marginal prediction along one side of the cube, that is, for one parameter. The
// marginal prediction at a value of this parameter is the mean prediction over all other parameters.
double variance_of_one(const Leaves& leaves, double mean, std::size_t side) {
  const Edges edges(leaves, side);
  std::vector<double> change(edges.at.size(), 0);
  for (const Leaf& leaf : leaves) {
    const double part = leaf.value * leaf.volume / (leaf.high[side] - leaf.low[side]);
    change[edges.index(leaf.low[side])] += part;
    change[edges.index(leaf.high[side])] -= part;
  }
  double variance = 0, marginal = 0;
  for (std::size_t i = 0; i + 1 < edges.at.size(); ++i) {
    marginal += change[i];
    variance += (marginal - mean) * (marginal - mean) * edges.length(i);
  }
  return variance;
}

// The variance of the tree's marginal prediction over the pairs of values of two parameters. Includes the
// variance that each of the two parameters explains alone.
double variance_of_two(const Leaves& leaves, double mean, std::size_t one, std::size_t other) {
  const Edges across(leaves, one), along(leaves, other);
  const std::size_t columns = along.at.size();
  std::vector<double> change(across.at.size() * columns, 0);
  for (const Leaf& leaf : leaves) {
    const double part =
        leaf.value * leaf.volume / ((leaf.high[one] - leaf.low[one]) * (leaf.high[other] - leaf.low[other]));
    const std::size_t top = across.index(leaf.low[one]) * columns,
                      end = across.index(leaf.high[one]) * columns;
    const std::size_t left = along.index(leaf.low[other]), right = along.index(leaf.high[other]);
    change[top + left] += part;
    change[top + right] -= part;
    change[end + left] -= part;
    change[end + right] += part;
  }
  double variance = 0;
  std::vector<double> marginal(columns, 0);  // the predictions of this row, one for each column
  for (std::size_t i = 0; i + 1 < across.at.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j + 1 < columns; ++j) {
      marginal[j] += change[i * columns + j];
      sum += marginal[j];
      variance += (sum - mean) * (sum - mean) * across.length(i) * along.length(j);
    }
  }
  return variance;
}

// The share of the variance that `part` explains, averaged over the trees.
template <typename Part>
double mean_share(const std::vector<Leaves>& forest, Part part) {
  double sum = 0;
  std::size_t count = 0;
  for (const Leaves& leaves : forest) {
    const Moments all = moments_of(leaves);
    if (all.variance < 1e-12) continue;  // a tree with a single leaf explains nothing
    sum += std::clamp(part(leaves, all.mean) / all.variance, 0.0, 1.0);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

std::vector<Effect> interactions(const Space& space, const std::vector<Leaves>& forest,
                                 const std::vector<std::size_t>& sides) {
  std::vector<Effect> found;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    for (std::size_t j = i + 1; j < sides.size(); ++j) {
      const std::size_t one = sides[i], other = sides[j];
      const double share = mean_share(forest, [&](const Leaves& leaves, double mean) {
        return variance_of_two(leaves, mean, one, other) - variance_of_one(leaves, mean, one) -
               variance_of_one(leaves, mean, other);
      });
      if (share >= smallest_interaction)
        found.push_back({space.parameters[one].path, space.parameters[other].path, share});
    }
  }
  return found;
}

}  // namespace

Importance importance(const Space& space, const std::vector<Trial>& trials, const Objective& objective) {
  Importance result;
  if (space.parameters.empty()) {
    result.reason = "the sweep has no parameters";
    return result;
  }
  Samples samples = samples_of(space, trials);
  result.trials = samples.y.size();
  if (result.trials < fewest_trials) {
    result.reason = "only " + std::to_string(result.trials) + " trials succeeded with a value; this needs " +
                    std::to_string(fewest_trials);
    return result;
  }
  if (!standardise(samples.y, objective)) {
    result.reason = "all trials have the same value";
    return result;
  }
  const std::vector<Leaves> forest = grow_forest(space, samples, result.fit);
  std::vector<std::size_t> sides(space.parameters.size());
  std::iota(sides.begin(), sides.end(), std::size_t{0});
  for (const std::size_t side : sides) {
    const double share = mean_share(
        forest, [&](const Leaves& leaves, double mean) { return variance_of_one(leaves, mean, side); });
    result.effects.push_back({space.parameters[side].path, "", share});
  }
  std::ranges::stable_sort(sides, std::ranges::greater{},
                           [&](std::size_t side) { return result.effects[side].share; });
  sides.resize(std::min(sides.size(), paired));
  for (Effect& effect : interactions(space, forest, sides)) result.effects.push_back(std::move(effect));
  std::ranges::stable_sort(result.effects, std::ranges::greater{}, &Effect::share);
  return result;
}

}  // namespace mlk::sweeps
