#include "sweeps/tpe_density.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace mlk::sweeps {
namespace {

constexpr std::uint64_t most_cells = 256;  // more are as good as continuous

constexpr double least_mass = 1e-100;  // its logarithm is finite

double normal_below(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

bool is_smooth(const Axis& axis) { return axis.cells() == 0 || axis.cells() > most_cells; }

// Of the normal density around `center` that lies in [low, high].
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
}

Density::Kernel Density::kernel_of(const Observation& observation, std::size_t axis) const {
  const double center = observation.places[axis], width = observation.widths[axis];
  if (center == absent || !axes_[axis].is_ordered()) return {center, width, 0};
  double log_scale = -std::log(mass(center, width, 0, 1));
  if (is_smooth(axes_[axis])) log_scale -= std::log(width * std::sqrt(2 * std::numbers::pi));
  return {center, width, log_scale};
}

double Density::log_kernel(const Kernel& kernel, const Axis& axis, double place) const {
  const auto cells = static_cast<double>(axis.cells());
  if (kernel.center == absent) return is_smooth(axis) ? 0 : -std::log(cells);
  if (!axis.is_ordered()) {
    const bool same = axis.cell_at(place) == axis.cell_at(kernel.center);
    return std::log(other_ / cells + (same ? 1 - other_ : 0));
  }
  if (is_smooth(axis)) {
    const double z = (place - kernel.center) / kernel.width;
    return kernel.log_scale - 0.5 * z * z;
  }
  const double inside = mass(kernel.center, kernel.width, place - 0.5 / cells, place + 0.5 / cells);
  return kernel.log_scale + std::log(std::max(inside, least_mass));
}

double Density::log_at(const Places& places) const {
  std::vector<double> logs = log_weights_;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (places[i] == absent) continue;
    for (std::size_t k = 0; k < kernels_[i].size(); ++k)
      logs[k] += log_kernel(kernels_[i][k], axes_[i], places[i]);
    if (!is_smooth(axes_[i])) logs.back() -= std::log(static_cast<double>(axes_[i].cells()));
  }
  const double largest = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (const double each : logs) sum += std::exp(each - largest);
  return largest + std::log(sum);
}

double Density::draw_from(const Kernel& kernel, const Axis& axis, CounterRandom& random) const {
  if (kernel.center == absent) return random.uniform();
  if (!axis.is_ordered()) return random.uniform() < other_ ? random.uniform() : kernel.center;
  constexpr int tries = 32;  // of which at least a third lie inside: no width is above 1
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
