#include "sweeps/search/tpe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "sweeps/search/grid.h"
#include "sweeps/search/random.h"
#include "sweeps/search/tpe_density.h"
#include "sweeps/search/tpe_trend.h"
#include "sweeps/search/tpe_widths.h"
#include "sweeps/space/counter_random.h"

namespace mlk::sweeps {
namespace {

// Chosen by measuring on the functions of `make bench` and on eight other functions, but with seeds that
// `make bench` does not use.
constexpr double good_share = 0.1;
constexpr std::size_t most_good = 25, most_others = 200;  // a density with more points takes longer
constexpr double good_prior = 0.3, other_prior = 1;
constexpr std::size_t largest_scored = 2000;  // if the space has at most so many points, all are scored
constexpr std::size_t most_fitted = 150;      // the time to fit a trend grows with its third power
constexpr double trend_weight = 50;
// The loss of failed trials is this quantile of the finite losses. A larger loss would bend the trend far
// around the failed trials.
constexpr double failed_quantile = 0.75;

// The numbers of candidates that are drawn from the density of good points, from the whole space, near each
// of the best points, and near each of the best candidates. Candidates of the last kind are drawn in several
// rounds, each nearer to the best candidates than the round before.
constexpr int by_density = 70, anywhere = 20, near_each = 12, near_each_candidate = 8, rounds = 6;
constexpr std::size_t best_points = 5, best_candidates = 3;
constexpr double widest = 0.3, narrowest = 0.003, first_width = 0.1, shrinking = 0.6;

bool is_known(const Told& one) { return !one.running && one.value && !std::isnan(*one.value); }

// The told points, divided into good points and others. Failed and running trials count as the worst. The
// constant liar of Ginsbourger et al. 2010 treats running trials in this way, and keeps parallel trials
// apart.
struct Groups {
  std::vector<Observation> good, others;
};

double loss_of(Objective::Goal goal, const Told& one) {
  if (!is_known(one)) return std::numeric_limits<double>::infinity();
  return goal == Objective::Goal::minimize ? *one.value : -*one.value;
}

// The told points: the best first, points without a value last.
std::vector<const Told*> ranked(Objective::Goal goal, const std::vector<Told>& told) {
  std::vector<const Told*> order;
  for (const Told& one : told) order.push_back(&one);
  std::ranges::stable_sort(order, {}, [&](const Told* one) { return loss_of(goal, *one); });
  return order;
}

// At most `most` observations, at equal distances in the list.
std::vector<Observation> spread(std::vector<Observation> all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<Observation> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(std::move(all[i * all.size() / most]));
  return some;
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
    // Logarithmic weights by rank, as for the parents in evolution strategies (Hansen 2016, arXiv
    // 1604.00772).
    observation.weight =
        std::log(static_cast<double>(count) + 1.5) - std::log(static_cast<double>(groups.good.size()) + 1);
    sum += observation.weight;
    groups.good.push_back(std::move(observation));
  }
  for (Observation& one : groups.good) one.weight *= static_cast<double>(count) / sum;
  groups.others = spread(std::move(groups.others), most_others);
  widen_by_neighbours(axes, groups.good);
  widen_by_gaps(axes, groups.others);
  return groups;
}

// The input of a trend: the best points of ended trials, and the points of running trials.
struct Measured {
  std::vector<Places> points, running;
  std::vector<double> losses;
};

// The loss that failed trials get. `losses`: sorted, the smallest first.
double loss_of_failed(const std::vector<double>& losses) {
  std::vector<double> finite;
  for (const double loss : losses) {
    if (std::isfinite(loss)) finite.push_back(loss);
  }
  if (finite.empty()) return 0;
  return finite[static_cast<std::size_t>(failed_quantile * static_cast<double>(finite.size()))];
}

Measured measured_of(const std::vector<Axis>& axes, Objective::Goal goal, const std::vector<Told>& told) {
  Measured measured;
  for (const Told* one : ranked(goal, told)) {
    if (one->running) {
      measured.running.push_back(places_of(axes, one->point));
    } else if (measured.points.size() < most_fitted) {
      measured.points.push_back(places_of(axes, one->point));
      measured.losses.push_back(loss_of(goal, *one));
    }
  }
  const double failed = loss_of_failed(measured.losses);
  const auto finite = std::ranges::find_if(measured.losses, [](double loss) { return std::isfinite(loss); });
  const double least = finite == measured.losses.end() ? failed : *finite;
  for (double& loss : measured.losses) {
    if (!std::isfinite(loss)) loss = loss > 0 ? failed : least;
  }
  return measured;
}

// A point near `center`: one coordinate moves, and perhaps others move too. `width` is a share of the axes.
PlacedPoint drawn_near(const std::vector<Axis>& axes, const Places& center, double width,
                       CounterRandom& random) {
  const auto count = static_cast<double>(axes.size());
  const double share = std::max(0.3, 1.5 / count);
  const auto moved = static_cast<std::size_t>(random.uniform() * count);
  return point_at(axes, [&](std::size_t i) {
    const bool moves = i == moved || random.uniform() < share;
    const double step = random.normal(), elsewhere = random.uniform();
    if (center[i] == absent) return elsewhere;
    if (!moves) return center[i];
    if (!axes[i].is_ordered()) return elsewhere;
    const double least = axes[i].cells() == 0 ? 0 : 0.7 * axes[i].width_of(axes[i].cell_at(center[i]));
    const double place = std::fabs(center[i] + std::max(width, least) * step);
    return place > 1 ? 2 - place : place;
  });
}

// Chooses the candidates with the highest scores. The main part of a score is high if the trend's mean minus
// its deviation is small (the lower confidence bound of Cox and John 1992). The other part is the logarithm
// of the ratio of the two densities, since the expected improvement grows with this ratio (Bergstra et al.
// 2011). This part has a small weight, since a value that is good by luck also raises the ratio.
class Choice {
 public:
  Choice(const Space& space, const std::vector<Places>& running, const std::set<Point>& taken,
         const Density& good, const Density& others, const Trend& trend)
      : space_(space), running_(running), taken_(taken), good_(good), others_(others), trend_(trend) {}

  void consider(PlacedPoint candidate) {
    if (taken_.count(candidate.point) != 0 || is_left_out(space_, candidate.point)) return;
    if (runs_nearby(candidate.places)) return;
    const Trend::Guess guess = trend_.at(candidate.places);
    const double ratio = good_.log_at(candidate.places) - others_.log_at(candidate.places);
    scored_.push_back({std::move(candidate), ratio - trend_weight * (guess.mean - guess.deviation)});
  }

  // At most `count` of the best candidates so far, the best first.
  std::vector<PlacedPoint> best(std::size_t count) {
    std::ranges::stable_sort(scored_, std::ranges::greater{}, &Scored::score);
    std::vector<PlacedPoint> out;
    for (std::size_t i = 0; i < std::min(count, scored_.size()); ++i) out.push_back(scored_[i].candidate);
    return out;
  }

 private:
  struct Scored {
    PlacedPoint candidate;
    double score;
  };

  // Whether a running trial is so near that a trial at these places would give no new information.
  bool runs_nearby(const Places& places) const {
    constexpr double near = 0.005;
    return std::any_of(running_.begin(), running_.end(), [&](const Places& other) {
      return std::equal(places.begin(), places.end(), other.begin(), other.end(),
                        [](double a, double b) { return std::fabs(a - b) < near; });
    });
  }

  const Space& space_;
  const std::vector<Places>& running_;
  const std::set<Point>& taken_;
  const Density &good_, &others_;
  const Trend& trend_;
  std::vector<Scored> scored_;
};

void consider_many(const std::vector<Axis>& axes, const Density& good, const std::vector<Places>& best,
                   CounterRandom& random, Choice& choice) {
  for (int i = 0; i < by_density; ++i) choice.consider(good.draw(random));
  for (int i = 0; i < anywhere; ++i)
    choice.consider(point_at(axes, [&](std::size_t) { return random.uniform(); }));
  for (std::size_t b = 0; b < std::min(best_points, best.size()); ++b) {
    for (int i = 0; i < near_each; ++i) {
      const double width = widest * std::pow(narrowest / widest, random.uniform());
      choice.consider(drawn_near(axes, best[b], width, random));
    }
  }
  double width = first_width;
  for (int round = 0; round < rounds; ++round, width *= shrinking) {
    for (const PlacedPoint& candidate : choice.best(best_candidates)) {
      for (int i = 0; i < near_each_candidate; ++i)
        choice.consider(drawn_near(axes, candidate.places, width, random));
    }
  }
}

// All points of a small space; empty for a larger space.
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
  const Trend trend(axes, measured.points, measured.losses, measured.running);
  Choice choice(space, measured.running, taken, good, others, trend);
  const std::vector<Point> all = listed(space);
  for (const Point& point : all) choice.consider({point, places_of(axes, point)});
  if (all.empty()) {
    CounterRandom random(seed, told.size());
    consider_many(axes, good, measured.points, random, choice);
  }
  const std::vector<PlacedPoint> best = choice.best(1);
  return best.empty() ? std::nullopt : std::optional(best.front().point);
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
