#include "sweeps/tpe_density.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace mlk::sweeps {
namespace {

constexpr std::uint64_t most_cells = 256;  // more are as good as continuous

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

// ---- lab
static void widths_scott(const std::vector<Observation>& obs, std::size_t axis, std::size_t d, double bw,
                         double floor, std::vector<double>& out) {
  double sum = 0, mean = 0, var = 0, sq = 0;
  for (const auto& o : obs)
    if (o.places[axis] != absent) {
      sum += o.weight;
      sq += o.weight * o.weight;
      mean += o.weight * o.places[axis];
    }
  if (sum == 0) {
    std::fill(out.begin(), out.end(), 1.0);
    return;
  }
  mean /= sum;
  for (const auto& o : obs)
    if (o.places[axis] != absent) var += o.weight * (o.places[axis] - mean) * (o.places[axis] - mean);
  const double n = sum * sum / sq;
  var = (var / sum * n + 1.0 / 12) / (n + 1);
  const double w = bw * std::sqrt(var) * std::pow(n + 1, -1.0 / (4 + static_cast<double>(d)));
  std::fill(out.begin(), out.end(), std::clamp(w, floor, 1.0));
}
static void widths_near(const std::vector<Observation>& obs, std::size_t axis, double bw, double floor,
                        std::vector<double>& out) {
  std::vector<std::pair<double, std::size_t>> s;
  for (std::size_t i = 0; i < obs.size(); ++i)
    if (obs[i].places[axis] != absent) s.push_back({obs[i].places[axis], i});
  std::sort(s.begin(), s.end());
  const double lo = std::max(floor, 1.0 / std::min(100.0, 2.0 + double(obs.size())));
  for (std::size_t k = 0; k < s.size(); ++k) {
    double left = k == 0 ? s[0].first : s[k].first - s[k - 1].first;
    double right = k + 1 == s.size() ? 1 - s[k].first : s[k + 1].first - s[k].first;
    if (s.size() >= 2 && k == 0) left = 0;
    if (s.size() >= 2 && k + 1 == s.size()) right = 0;
    out[s[k].second] = std::clamp(bw * std::max(left, right), lo, 1.0);
  }
}
// ---- lab end

Density::Density(const std::vector<Axis>& axes, std::vector<Observation> observations, double prior_weight,
                 int mode, double bw, double floor, double eps)
    : axes_(axes) {
  double total = prior_weight;
  for (const Observation& one : observations) total += one.weight;
  double below = 0;
  for (const Observation& one : observations) {
    below += one.weight / total;
    log_weights_.push_back(std::log(one.weight / total));
    cumulated_.push_back(below);
  }
  log_weights_.push_back(std::log(prior_weight / total));
  keep_ = 1 - eps;
  kernels_.assign(observations.size(), std::vector<Kernel>(axes.size()));
  std::vector<double> joint(observations.size(), 1.0);
  if (mode == 2 || mode == 3) {
    const std::size_t kth = mode == 2 ? 1 : 2;
    for (std::size_t i = 0; i < observations.size(); ++i) {
      std::vector<double> ds;
      for (std::size_t j = 0; j < observations.size(); ++j) {
        if (j == i) continue;
        double s = 0, n = 0;
        for (std::size_t a = 0; a < axes.size(); ++a) {
          const double x = observations[i].places[a], y = observations[j].places[a];
          if (!axes[a].is_ordered() || (x == absent && y == absent)) continue;
          n += 1;
          s += x == absent || y == absent ? 1.0 / 6 : (x - y) * (x - y);
        }
        ds.push_back(n > 0 ? std::sqrt(s / n) : 1.0);
      }
      std::sort(ds.begin(), ds.end());
      joint[i] = ds.size() >= kth ? ds[kth - 1] : ds.empty() ? 0.3 : ds.back();
    }
  }
  std::vector<double> w(observations.size(), 1.0);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (mode == 0) widths_scott(observations, a, axes.size(), bw, floor, w);
    if (mode == 1) widths_near(observations, a, bw, floor, w);
    if (mode >= 2)
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::clamp(bw * joint[i], floor, 1.0);
    for (std::size_t i = 0; i < observations.size(); ++i) {
      const double c = observations[i].places[a];
      double width = w[i];
      if (axes[a].cells() && axes[a].is_ordered()) width = std::max(width, 0.5 / double(axes[a].cells()));
      kernels_[i][a] = {c, width, 0};
      if (c == absent || !axes[a].is_ordered()) continue;
      double scale = -std::log(mass(c, width, 0, 1));
      if (is_smooth(axes[a])) scale -= std::log(width * std::sqrt(2 * std::numbers::pi));
      kernels_[i][a].log_scale = scale;
    }
  }
}

double Density::log_kernel(const Kernel& kernel, const Axis& axis, double place) const {
  const bool same = kernel.center != absent;
  if (is_smooth(axis)) {
    if (!same) return 0;
    const double z = (place - kernel.center) / kernel.width;
    return kernel.log_scale - 0.5 * z * z;
  }
  const double cells = static_cast<double>(axis.cells());
  if (!same) return -std::log(cells);
  if (!axis.is_ordered()) {
    const bool equal = axis.cell_at(place) == axis.cell_at(kernel.center);
    return std::log((1 - keep_) / cells + (equal ? keep_ : 0));
  }
  const double inside = mass(kernel.center, kernel.width, place - 0.5 / cells, place + 0.5 / cells);
  return kernel.log_scale + std::log(std::max(inside, 1e-100));
}

double Density::log_at(const Places& places) const {
  std::vector<double> logs = log_weights_;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (places[a] == absent) continue;
    for (std::size_t i = 0; i < kernels_.size(); ++i)
      logs[i] += log_kernel(kernels_[i][a], axes_[a], places[a]);
    if (!is_smooth(axes_[a])) logs.back() -= std::log(static_cast<double>(axes_[a].cells()));
  }
  const double largest = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (const double each : logs) sum += std::exp(each - largest);
  return largest + std::log(sum);
}

double Density::draw_from(const Kernel& kernel, const Axis& axis, CounterRandom& random) const {
  if (kernel.center == absent) return random.uniform();
  if (!axis.is_ordered()) return random.uniform() < keep_ ? kernel.center : random.uniform();
  constexpr int tries = 32;  // at least a third of them lie inside
  for (int i = 0; i < tries; ++i) {
    const double place = kernel.center + kernel.width * random.normal();
    if (place >= 0 && place < 1) return place;
  }
  return kernel.center;
}

PlacedPoint Density::draw(CounterRandom& random) const {
  const double chosen = random.uniform();
  const auto component = static_cast<std::size_t>(
      std::upper_bound(cumulated_.begin(), cumulated_.end(), chosen) - cumulated_.begin());
  if (component == kernels_.size()) return point_at(axes_, [&](std::size_t) { return random.uniform(); });
  return point_at(axes_, [&](std::size_t i) { return draw_from(kernels_[component][i], axes_[i], random); });
}

}  // namespace mlk::sweeps
