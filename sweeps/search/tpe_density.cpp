#include "sweeps/search/tpe_density.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace mlk::sweeps {
namespace {

constexpr std::uint64_t most_cells = 64;  // an axis with more cells counts as continuous

constexpr double least_mass = 1e-100;  // its logarithm is finite

double normal_below(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

bool is_smooth(const Axis& axis) {
  return axis.is_ordered() && (axis.cells() == 0 || axis.cells() > most_cells);
}

// The mass of the normal density around `center` in [low, high].
double mass(double center, double width, double low, double high) {
  return normal_below((high - center) / width) - normal_below((low - center) / width);
}

}  // namespace

Places places_of(const std::vector<Axis>& axes, const Point& point) {
  Places places(axes.size(), absent);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto found = point.find(axes[i].parameter().path);
    if (found != point.end()) places[i] = axes[i].place_of(found->second).value_or(absent);
  }
  return places;
}

PlacedPoint point_at(const std::vector<Axis>& axes, const std::function<double(std::size_t)>& choose) {
  PlacedPoint result{{}, Places(axes.size(), absent)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Parameter& parameter = axes[i].parameter();
    if (!holds(parameter.when, result.point)) continue;
    double place = std::clamp(choose(i), 0.0, 1.0);
    if (axes[i].cells() != 0) place = axes[i].middle_of(axes[i].cell_at(place));
    result.places[i] = place;
    result.point[parameter.path] = axes[i].value_at(place);
  }
  return result;
}

Density::Density(const std::vector<Axis>& axes, const std::vector<Observation>& observations,
                 double prior_weight)
    : axes_(axes), kernels_(axes.size()), other_(1 / (1 + static_cast<double>(observations.size()) / 3)) {
  double total = prior_weight;
  for (const Observation& one : observations) total += one.weight;
  double sum = 0;
  for (const Observation& one : observations) {
    sum += one.weight / total;
    cumulated_.push_back(sum);
    log_weights_.push_back(std::log(one.weight / total));
    for (std::size_t axis = 0; axis < axes.size(); ++axis) kernels_[axis].push_back(kernel_of(one, axis));
  }
  log_weights_.push_back(std::log(prior_weight / total));
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    cells_.push_back(is_smooth(axes[axis])     ? std::vector<double>()
                     : axes[axis].is_ordered() ? logs_of_cells(axis)
                                               : logs_of_words(axis));
  }
}

Density::Kernel Density::kernel_of(const Observation& observation, std::size_t axis) const {
  const double center = observation.places[axis], width = observation.widths[axis];
  if (center == absent || !axes_[axis].is_ordered()) return {center, width, 0};
  double log_scale = -std::log(mass(center, width, 0, 1));
  if (is_smooth(axes_[axis])) log_scale -= std::log(width * std::sqrt(2 * std::numbers::pi));
  return {center, width, log_scale};
}

// All words share a part of the probability equally. The observed word also gets the rest.
std::vector<double> Density::logs_of_words(std::size_t axis) const {
  const std::vector<Kernel>& kernels = kernels_[axis];
  const auto words = static_cast<double>(axes_[axis].cells());
  const double any = -std::log(words), another = std::log(other_ / words),
               same = std::log(other_ / words + 1 - other_);
  std::vector<double> logs(axes_[axis].cells() * kernels.size(), another);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].center == absent) {
      for (std::size_t word = 0; word < axes_[axis].cells(); ++word) logs[word * kernels.size() + k] = any;
    } else {
      logs[axes_[axis].cell_at(kernels[k].center) * kernels.size() + k] = same;
    }
  }
  return logs;
}

// The upper bound of a cell is the lower bound of the next cell, so each cell needs only one value of the
// error function.
std::vector<double> Density::logs_of_cells(std::size_t axis) const {
  const std::vector<Kernel>& kernels = kernels_[axis];
  const std::size_t cells = axes_[axis].cells();
  std::vector<double> logs(cells * kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const auto below = [&](std::size_t cell) {
      return normal_below((axes_[axis].start_of(cell) - kernels[k].center) / kernels[k].width);
    };
    double low = below(0);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const double high = below(cell + 1);
      logs[cell * kernels.size() + k] =
          kernels[k].center == absent ? std::log(axes_[axis].width_of(cell))
                                      : kernels[k].log_scale + std::log(std::max(high - low, least_mass));
      low = high;
    }
  }
  return logs;
}

void Density::add_kernels(std::size_t axis, double place, std::vector<double>& logs) const {
  const std::vector<Kernel>& kernels = kernels_[axis];
  if (!cells_[axis].empty()) {
    const double* const cell = cells_[axis].data() + axes_[axis].cell_at(place) * kernels.size();
    for (std::size_t k = 0; k < kernels.size(); ++k) logs[k] += cell[k];
    return;
  }
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].center == absent) continue;
    const double z = (place - kernels[k].center) / kernels[k].width;
    logs[k] += kernels[k].log_scale - 0.5 * z * z;
  }
}

double Density::log_at(const Places& places) const {
  std::vector<double> logs = log_weights_;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (places[i] == absent) continue;
    add_kernels(i, places[i], logs);
    if (!is_smooth(axes_[i])) logs.back() += std::log(axes_[i].width_of(axes_[i].cell_at(places[i])));
  }
  const double largest = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (const double each : logs) sum += std::exp(each - largest);
  return largest + std::log(sum);
}

double Density::draw_from(const Kernel& kernel, const Axis& axis, CounterRandom& random) const {
  if (kernel.center == absent) return random.uniform();
  if (!axis.is_ordered()) return random.uniform() < other_ ? random.uniform() : kernel.center;
  constexpr int tries = 32;  // each succeeds with a probability above a third, since no width is above 1
  for (int i = 0; i < tries; ++i) {
    const double place = kernel.center + kernel.width * random.normal();
    if (place >= 0 && place < 1) return place;
  }
  return kernel.center;
}

PlacedPoint Density::draw(CounterRandom& random) const {
  const auto above = std::upper_bound(cumulated_.begin(), cumulated_.end(), random.uniform());
  if (above == cumulated_.end()) return point_at(axes_, [&](std::size_t) { return random.uniform(); });
  const auto chosen = static_cast<std::size_t>(above - cumulated_.begin());
  return point_at(axes_, [&](std::size_t i) { return draw_from(kernels_[i][chosen], axes_[i], random); });
}

}  // namespace mlk::sweeps
