#include "sweeps/search/tpe_widths.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace mlk::sweeps {
namespace {

// All widths are shares of an axis. The numbers come from measurements on functions and seeds that
// `make bench` does not use.
constexpr double narrowest_good = 0.05;
constexpr double of_gap = 0.5;
constexpr double alone = 0.3;            // the width if there is no other point
constexpr double unlike = 1.0 / 6;       // the mean square distance of two random places
constexpr double cells_of_kernel = 0.5;  // a width below half a cell has the same effect as half a cell

double bounded(double width, double narrowest, const Axis& axis, double place) {
  if (axis.cells() != 0)
    narrowest = std::max(narrowest, cells_of_kernel * axis.width_of(axis.cell_at(place)));
  return std::clamp(width, std::min(narrowest, 1.0), 1.0);
}

// The root mean square distance over the ordered axes that at least one of the two points has.
double distance(const std::vector<Axis>& axes, const Places& a, const Places& b) {
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].is_ordered() || (a[i] == absent && b[i] == absent)) continue;
    sum += a[i] == absent || b[i] == absent ? unlike : (a[i] - b[i]) * (a[i] - b[i]);
    ++count;
  }
  return count == 0 ? 1 : std::sqrt(sum / count);
}

}  // namespace

void widen_by_neighbours(const std::vector<Axis>& axes, std::vector<Observation>& observations) {
  for (Observation& one : observations) {
    std::vector<double> distances;
    for (const Observation& other : observations) {
      if (&other != &one) distances.push_back(distance(axes, one.places, other.places));
    }
    std::sort(distances.begin(), distances.end());
    const double width =
        distances.empty() ? alone : distances[std::min<std::size_t>(1, distances.size() - 1)];
    one.widths.clear();
    for (std::size_t i = 0; i < axes.size(); ++i)
      one.widths.push_back(bounded(width, narrowest_good, axes[i], one.places[i]));
  }
}

void widen_by_gaps(const std::vector<Axis>& axes, std::vector<Observation>& observations) {
  for (Observation& one : observations) one.widths.assign(axes.size(), 1);
  const double narrowest = 1 / std::min(100.0, static_cast<double>(observations.size()) + 2);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<std::pair<double, Observation*>> sorted;
    for (Observation& one : observations) {
      if (one.places[axis] != absent) sorted.emplace_back(one.places[axis], &one);
    }
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const double below = i == 0 ? 0 : sorted[i].first - sorted[i - 1].first;
      const double above = i + 1 == sorted.size() ? 0 : sorted[i + 1].first - sorted[i].first;
      const double width = sorted.size() == 1 ? 1 : of_gap * std::max(below, above);
      sorted[i].second->widths[axis] = bounded(width, narrowest, axes[axis], sorted[i].first);
    }
  }
}

}  // namespace mlk::sweeps
