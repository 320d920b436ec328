#include "sweeps/tpe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "sweeps/counter_random.h"
#include "sweeps/grid.h"
#include "sweeps/random.h"
#include "sweeps/tpe_density.h"
#include "sweeps/tpe_trend.h"
#include "sweeps/tpe_widths.h"

namespace mlk::sweeps {
namespace {

// Chosen by measuring on the functions of `make bench` and eight others, with other seeds.
constexpr double good_share = 0.1;
constexpr std::size_t most_good = 25;
constexpr double good_prior = 0.3, other_prior = 1;
constexpr int candidates = 100;
constexpr std::size_t largest_scored = 2000;  // in a space of so few points all of them are scored
constexpr std::size_t most_fitted = 200;      // the time that a trend takes grows with their third power
constexpr double trend_weight = 30;

bool is_known(const Told& one) { return !one.running && one.value && !std::isnan(*one.value); }

// What was told, in two groups. Failed trials count as the worst, and so do those that still run: the
// constant liar of Ginsbourger et al. 2010, which keeps parallel trials apart.
struct Groups {
  std::vector<Observation> good, others;
};

double loss_of(Objective::Goal goal, const Told& one) {
  if (!is_known(one)) return std::numeric_limits<double>::infinity();
  return goal == Objective::Goal::minimize ? *one.value : -*one.value;
}

// The points told, the best first, those without a value last.
std::vector<const Told*> ranked(Objective::Goal goal, const std::vector<Told>& told) {
  std::vector<const Told*> order;
  for (const Told& one : told) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [&](const Told* a, const Told* b) { return loss_of(goal, *a) < loss_of(goal, *b); });
  return order;
}

Groups groups_of(const std::vector<Axis>& axes, Objective::Goal goal, const std::vector<Told>& told) {
  const auto ended = std::count_if(told.begin(), told.end(), [](const Told& one) { return !one.running; });
  const auto share = static_cast<std::size_t>(std::ceil(good_share * static_cast<double>(ended)));
  const auto known = static_cast<std::size_t>(std::count_if(told.begin(), told.end(), is_known));
  const std::size_t count = std::min({share, most_good, known});
  Groups groups;
  double sum = 0;
  for (const Told* one : ranked(goal, told)) {
    Observation observation{places_of(axes, one->point), 1, {}};
    if (groups.good.size() == count) {
      groups.others.push_back(std::move(observation));
      continue;
    }
    // The logarithm of ranks, as evolution strategies weigh their parents (Hansen 2016, arXiv 1604.00772).
    observation.weight =
        std::log(static_cast<double>(count) + 1.5) - std::log(static_cast<double>(groups.good.size()) + 1);
    sum += observation.weight;
    groups.good.push_back(std::move(observation));
  }
  for (Observation& one : groups.good) one.weight *= static_cast<double>(count) / sum;
  widen_by_neighbours(axes, groups.good);
  widen_by_gaps(axes, groups.others);
  return groups;
}

// What a trend is fitted to: the best of the points told.
struct Measured {
  std::vector<Places> points;
  std::vector<double> losses;
};

// Failed trials, those that run and infinite losses count as the largest finite loss.
Measured measured_of(const std::vector<Axis>& axes, Objective::Goal goal, const std::vector<Told>& told) {
  Measured measured;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Told* one : ranked(goal, told)) {
    if (measured.points.size() == most_fitted) break;
    const double loss = loss_of(goal, *one);
    measured.points.push_back(places_of(axes, one->point));
    measured.losses.push_back(loss);
    if (!std::isfinite(loss)) continue;
    low = std::min(low, loss);
    high = std::max(high, loss);
  }
  if (low > high) low = high = 0;
  for (double& loss : measured.losses) loss = std::clamp(loss, low, high);
  return measured;
}

// The expected improvement grows with the ratio of the two densities (Bergstra et al. 2011). Each further
// parameter makes the density of good points more peaked, so whole ratios are compared only between points
// with the same parameters. The trend weighs more: the ratio also follows a value that is good by luck.
class Choice {
 public:
  Choice(const Space& space, const std::set<Point>& taken, const Density& good, const Density& others,
         const Trend& trend)
      : space_(space), taken_(taken), good_(good), others_(others), trend_(trend) {}

  void consider(PlacedPoint candidate) {
    if (taken_.count(candidate.point) != 0 || is_left_out(space_, candidate.point)) return;
    const double shared = score(candidate.places, Density::Axes::unconditional);
    const Trend::Guess guess = trend_.at(candidate.places);
    const double whole =
        score(candidate.places, Density::Axes::all) - trend_weight * (guess.mean - guess.deviation);
    scored_.push_back({std::move(candidate), shared, whole});
  }

  std::optional<Point> best() const {
    if (scored_.empty()) return std::nullopt;
    const auto lead = std::max_element(scored_.begin(), scored_.end(),
                                       [](const Scored& a, const Scored& b) { return a.shared < b.shared; });
    const Scored* best = &*lead;
    for (const Scored& one : scored_) {
      if (one.whole > best->whole && have_same_parameters(one.candidate, lead->candidate)) best = &one;
    }
    return best->candidate.point;
  }

 private:
  struct Scored {
    PlacedPoint candidate;
    double shared, whole;  // by the parameters that all points have; by all parameters and the trend
  };

  double score(const Places& places, Density::Axes axes) const {
    return good_.log_at(places, axes) - others_.log_at(places, axes);
  }

  static bool have_same_parameters(const PlacedPoint& a, const PlacedPoint& b) {
    return std::equal(a.places.begin(), a.places.end(), b.places.begin(), b.places.end(),
                      [](double x, double y) { return (x == absent) == (y == absent); });
  }

  const Space& space_;
  const std::set<Point>& taken_;
  const Density &good_, &others_;
  const Trend& trend_;
  std::vector<Scored> scored_;
};

// All points of a small space; none of others.
std::vector<Point> listed(const Space& space) {
  if (!is_finite(space)) return {};
  const GridSize size = count_grid(space);
  return size.exact && size.points <= largest_scored ? grid_points(space, largest_scored)
                                                     : std::vector<Point>{};
}

std::optional<Point> by_model(const Space& space, Objective::Goal goal, std::uint64_t seed,
                              const std::vector<Told>& told, const std::set<Point>& taken) {
  const std::vector<Axis> axes = axes_of(space);
  const Groups groups = groups_of(axes, goal, told);
  const Density good(axes, groups.good, good_prior), others(axes, groups.others, other_prior);
  const Measured measured = measured_of(axes, goal, told);
  const Trend trend(axes, measured.points, measured.losses);
  Choice choice(space, taken, good, others, trend);
  const std::vector<Point> all = listed(space);
  for (const Point& point : all) choice.consider({point, places_of(axes, point)});
  if (all.empty()) {
    CounterRandom random(seed, told.size());
    for (int i = 0; i < candidates; ++i) choice.consider(good.draw(random));
  }
  return choice.best();
}

std::optional<Point> at_random(const Space& space, std::uint64_t seed, const std::set<Point>& taken) {
  RandomPoints sequence(space, seed);
  std::optional<Point> point = sequence.next();
  while (point && taken.count(*point) != 0) point = sequence.next();
  return point;
}

}  // namespace

std::optional<Point> suggest_tpe(const Space& space, Objective::Goal goal, const TpeOptions& options,
                                 const std::vector<Told>& told) {
  std::set<Point> taken;
  for (const Told& one : told) taken.insert(one.point);
  for (const Point& point : options.start) {
    if (taken.count(point) == 0 && !is_left_out(space, point)) return point;
  }
  std::optional<Point> point;
  if (std::count_if(told.begin(), told.end(), is_known) >= std::max(options.startup, 1))
    point = by_model(space, goal, options.seed, told, taken);
  return point ? point : at_random(space, options.seed, taken);
}

}  // namespace mlk::sweeps
