#include "sweeps/tpe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "sweeps/counter_random.h"
#include "sweeps/grid.h"
#include "sweeps/random.h"
#include "sweeps/tpe_density.h"

namespace mlk::sweeps {
//          gam gmax cand ref  plw  ml bwl  fl   mg bwg  fg  wm eps_l eps_g gm prg
double tune[] = {0.1, 25, 24, 0, 1.0, 1, 1.0, 0.0, 1, 1.0, 0.0, 0, -1, -1, 0, 1.0, 0, 0, 0, 0};
namespace {

// What was told, the best first; those without a value, which failed or run, last.
struct History {
  std::vector<Observation> observations;
  std::vector<double> losses;
  std::size_t with_value = 0, ended = 0;
};

bool has_value(const Told& one) { return !one.running && one.value && !std::isnan(*one.value); }

History history_of(const std::vector<Axis>& axes, Objective::Goal goal, const std::vector<Told>& told) {
  constexpr double worst = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, std::size_t>> ranked;
  History history;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const double sign = goal == Objective::Goal::minimize ? 1 : -1;
    ranked.emplace_back(has_value(told[i]) ? sign * *told[i].value : worst, i);
    if (has_value(told[i])) ++history.with_value;
    if (!told[i].running) ++history.ended;
  }
  std::stable_sort(ranked.begin(), ranked.end());
  for (const auto& [loss, i] : ranked) {
    history.observations.push_back({places_of(axes, told[i].point), 1});
    history.losses.push_back(loss);
  }
  return history;
}

class Model {
 public:
  Model(const Space& space, const std::vector<Axis>& axes, const History& history,
        const std::set<Point>& taken)
      : space_(space),
        taken_(taken),
        axes_(axes),
        good_(axes, group(history, true), tune[4], int(tune[5]), tune[6], tune[7], eps(history, true)),
        bad_(axes, group(history, false), tune[15], int(tune[8]), tune[9], tune[10], eps(history, false)) {}

  static std::size_t n_good(const History& h) {
    const double n = double(h.ended);
    const double g = tune[14] == 0 ? std::ceil(tune[0] * n) : std::ceil(tune[0] * std::sqrt(n));
    return std::min<std::size_t>(std::max<std::size_t>(1, std::size_t(std::min(g, tune[1]))), h.with_value);
  }
  static double eps(const History& h, bool good) {
    const double n = good ? double(n_good(h)) : double(h.observations.size() - n_good(h));
    const double fixed = good ? tune[12] : tune[13];
    return fixed >= 0 ? fixed : 1 / (1 + n / 3);
  }
  static std::vector<Observation> group(const History& h, bool good) {
    const auto n = std::ptrdiff_t(n_good(h));
    std::vector<Observation> out(good ? h.observations.begin() : h.observations.begin() + n,
                                 good ? h.observations.begin() + n : h.observations.end());
    if (good && tune[11] == 1 && n > 1) {
      for (std::ptrdiff_t i = 0; i < n; ++i)
        out[std::size_t(i)].weight = std::log(n + 0.5 + 1) - std::log(double(i) + 1);
      double s = 0;
      for (auto& o : out) s += o.weight;
      for (auto& o : out) o.weight *= double(n) / s;
    }
    return out;
  }

  std::optional<PlacedPoint> best(CounterRandom& random) const {
    std::optional<PlacedPoint> best;
    double top = -1e300;
    for (int i = 0; i < int(tune[2]); ++i) {
      PlacedPoint one = good_.draw(random);
      if (!is_new(one.point)) continue;
      const double s = score(one);
      if (!best || s > top) {
        best = std::move(one);
        top = s;
      }
    }
    if (!best) return best;
    const int steps = int(tune[3]);
    for (int s = 0; s < steps; ++s) {
      const auto axis = static_cast<std::size_t>(random.uniform() * double(axes_.size()));
      if (best->places[axis] == absent) continue;
      const double width = 0.2 * std::pow(0.5, 6.0 * s / steps);
      const double moved =
          axes_[axis].is_ordered() ? best->places[axis] + width * random.normal() : random.uniform();
      PlacedPoint one = point_at(axes_, [&](std::size_t i) {
        if (i == axis) return moved;
        return best->places[i] == absent ? random.uniform() : best->places[i];
      });
      if (!is_new(one.point)) continue;
      const double sc = score(one);
      if (sc > top) {
        best = std::move(one);
        top = sc;
      }
    }
    return best;
  }

  double score(const PlacedPoint& p) const { return good_.log_at(p.places) - bad_.log_at(p.places); }

  std::optional<PlacedPoint> best_of(const std::vector<Point>& all) const {
    std::optional<PlacedPoint> best;
    double top = -1e300;
    for (const Point& p : all) {
      if (taken_.count(p)) continue;
      PlacedPoint one{p, places_of(axes_, p)};
      const double s = score(one);
      if (!best || s > top) {
        best = std::move(one);
        top = s;
      }
    }
    return best;
  }

 private:
  bool is_new(const Point& point) const { return taken_.count(point) == 0 && !is_left_out(space_, point); }
  const Space& space_;
  const std::set<Point>& taken_;
  const std::vector<Axis>& axes_;
  Density good_, bad_;
};

}  // namespace

std::optional<Point> suggest_tpe(const Space& space, Objective::Goal goal, const TpeOptions& options,
                                 const std::vector<Told>& told) {
  std::set<Point> taken;
  for (const Told& one : told) taken.insert(one.point);
  for (const Point& point : options.start) {
    if (taken.count(point) == 0 && !is_left_out(space, point)) return point;
  }
  const std::vector<Axis> axes = axes_of(space);
  const History history = history_of(axes, goal, told);
  if (history.with_value >= static_cast<std::size_t>(std::max(options.startup, 1))) {
    CounterRandom random(options.seed, told.size());
    Model model(space, axes, history, taken);
    std::optional<PlacedPoint> best;
    if (is_finite(space)) {
      const GridSize size = count_grid(space);
      if (size.exact && size.points <= 2000) best = model.best_of(grid_points(space, 2000));
    }
    if (!best) best = model.best(random);
    if (best) return best->point;
  }
  RandomPoints sequence(space, options.seed);
  while (auto point = sequence.next()) {
    if (taken.count(*point) == 0) return point;
  }
  return std::nullopt;
}

}  // namespace mlk::sweeps
