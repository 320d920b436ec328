#include "sweeps/search/stopping.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "cli/util/error.h"

namespace mlk::sweeps {
namespace {

constexpr double worst = std::numeric_limits<double>::infinity();

// The cost of a value: lower is better, and never NaN.
double cost_of(Goal goal, double value) {
  if (!std::isfinite(value)) return worst;
  return goal == Goal::minimize ? value : -value;
}

bool has_come_to(const Progress& trial, std::int64_t resource) {
  return std::ranges::any_of(trial.reports, [&](const auto& report) { return report.first >= resource; });
}

// The cost of the last report up to the resource, or else of the first report. Nothing if there are no
// reports.
std::optional<double> cost_up_to(const Progress& trial, Goal goal, std::int64_t resource) {
  std::optional<std::pair<std::int64_t, double>> chosen;  // resource and cost
  for (const auto& [at, value] : trial.reports) {
    const double cost = cost_of(goal, value);
    const bool before = at <= resource, chosen_before = chosen && chosen->first <= resource;
    const bool nearer =
        chosen && (before ? at > chosen->first || !chosen_before : at < chosen->first && !chosen_before);
    if (!chosen || nearer) {
      chosen = {at, cost};
    } else if (at == chosen->first) {
      chosen->second = std::max(chosen->second, cost);
    }
  }
  return chosen ? std::optional(chosen->second) : std::nullopt;
}

struct Standing {
  double cost = worst;
  const Progress* trial = nullptr;
};

// The trials at the rung, the best first. If trials are equal, the trial with the lower number comes first.
std::vector<Standing> standings_at(const std::vector<std::int64_t>& rungs, std::size_t rung, Goal goal,
                                   const std::vector<Progress>& trials) {
  std::vector<Standing> standings;
  for (const Progress& trial : trials) {
    const std::optional<double> cost = cost_up_to(trial, goal, rungs[rung]);
    const bool came_before = rung == 0 || has_come_to(trial, rungs[rung - 1]);
    if (has_come_to(trial, rungs[rung])) {
      standings.push_back({*cost, &trial});
    } else if (trial.state == TrialState::succeeded) {
      standings.push_back({cost.value_or(worst), &trial});
    } else if (trial.state == TrialState::failed && came_before) {
      standings.push_back({worst, &trial});
    }
  }
  std::sort(standings.begin(), standings.end(), [](const Standing& a, const Standing& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.trial->number < b.trial->number;
  });
  return standings;
}

bool has_started(const Progress& trial) { return trial.until > 0 || !trial.reports.empty(); }

// Whether the trial will report more even if it is not promoted.
bool is_under_way(const Progress& trial) {
  return trial.state == TrialState::running ||
         (trial.state == TrialState::waiting && has_started(trial) && !has_come_to(trial, trial.until));
}

// Collects the decisions of one call.
class Promotions {
 public:
  Promotions(const std::vector<std::int64_t>& rungs, int free) : rungs_(rungs), free_(free) {}

  // Promotes the trial to the next rung. Returns false if the trial has ended, has passed this rung or was
  // promoted already. Also returns false if the trial waits and no place is free.
  bool promote(const Progress& trial, std::size_t rung) {
    const bool runs = trial.state == TrialState::running;
    if (!runs && (trial.state != TrialState::waiting || free_ <= 0)) return false;
    if (trial.until > rungs_[rung] || !promoted_.insert(trial.number).second) return false;
    if (!runs) --free_;
    decisions_.push_back({Decision::Kind::promote, trial.number, rungs_[rung + 1]});
    return true;
  }

  void pause(const Progress& trial) {
    if (promoted_.count(trial.number) == 0)
      decisions_.push_back({Decision::Kind::pause, trial.number, trial.until});
  }

  void start(int unstarted) {
    for (; free_ > 0 && unstarted > 0; --free_, --unstarted)
      decisions_.push_back({Decision::Kind::start, -1, rungs_.front()});
  }

  std::vector<Decision>& decisions() { return decisions_; }

 private:
  const std::vector<std::int64_t>& rungs_;
  int free_;
  std::set<int> promoted_;
  std::vector<Decision> decisions_;
};

// Promotes the best trial of the highest rung if otherwise no trial would ever reach max.
void promote_last(const std::vector<std::int64_t>& rungs, Goal goal, const std::vector<Progress>& trials,
                  Promotions& promotions) {
  for (std::size_t rung = rungs.size(); rung-- > 0;) {
    for (const Standing& standing : standings_at(rungs, rung, goal, trials)) {
      if (standing.cost == worst) break;
      if (rung + 1 == rungs.size() || promotions.promote(*standing.trial, rung)) return;
    }
  }
}

// The median; there must be at least one value.
double median_of(std::vector<double> costs) {
  std::sort(costs.begin(), costs.end());
  const std::size_t half = costs.size() / 2;
  return costs.size() % 2 == 1 ? costs[half] : costs[half - 1] / 2 + costs[half] / 2;
}

// Each resource, and the mean of the costs up to it; ascending by resource.
using Means = std::vector<std::pair<std::int64_t, double>>;

Means running_means(const Progress& trial, Goal goal) {
  Means means;
  for (const auto& [at, value] : trial.reports) means.emplace_back(at, cost_of(goal, value));
  std::sort(means.begin(), means.end());  // so that the sum does not depend on the order of the reports
  double sum = 0, count = 0;
  for (auto& [at, cost] : means) {
    sum += cost;
    cost = cost_of(Goal::minimize, sum / ++count);  // the sum of large values may overflow
  }
  return means;
}

double mean_up_to(const Means& means, std::int64_t resource) {
  const auto behind = std::upper_bound(means.begin(), means.end(), std::pair(resource, worst));
  return behind == means.begin() ? worst : std::prev(behind)->second;
}

}  // namespace

std::vector<std::int64_t> rungs_of(const AshaOptions& options) {
  const auto refuse_when = [](bool wrong, const std::string& what) {
    if (wrong) throw Error(ExitCode::usage, "early stopping: " + what);
  };
  refuse_when(options.min < 1, fmt::format("min must be at least 1, not {}", options.min));
  refuse_when(options.max < options.min, fmt::format("max {} is below min {}", options.max, options.min));
  refuse_when(options.factor < 2, fmt::format("factor must be at least 2, not {}", options.factor));
  std::vector<std::int64_t> rungs;
  for (std::int64_t rung = options.max; rung >= options.min; rung /= options.factor) rungs.push_back(rung);
  std::reverse(rungs.begin(), rungs.end());
  return rungs;
}

std::vector<Decision> asha_promotions(const AshaOptions& options, Goal goal,
                                      const std::vector<Progress>& trials, int free, int unstarted) {
  const std::vector<std::int64_t> rungs = rungs_of(options);
  Promotions promotions(rungs, free);
  for (std::size_t rung = rungs.size() - 1; rung-- > 0;) {
    const std::vector<Standing> standings = standings_at(rungs, rung, goal, trials);
    const std::size_t best = standings.size() / static_cast<std::size_t>(options.factor);
    for (std::size_t i = 0; i < best && standings[i].cost != worst; ++i)
      promotions.promote(*standings[i].trial, rung);
  }
  promotions.start(unstarted);
  const bool over = unstarted <= 0 && promotions.decisions().empty() &&
                    std::none_of(trials.begin(), trials.end(), is_under_way);
  if (over) promote_last(rungs, goal, trials, promotions);
  std::vector<const Progress*> in_order;
  for (const Progress& trial : trials) in_order.push_back(&trial);
  std::ranges::sort(in_order, {}, &Progress::number);
  for (const Progress* trial : in_order) {
    const bool at_rung = trial->until > 0 && trial->until < options.max && has_come_to(*trial, trial->until);
    if (trial->state == TrialState::running && at_rung) promotions.pause(*trial);
  }
  return promotions.decisions();
}

std::vector<Decision> asha_stops(const AshaOptions& options, Goal goal, const std::vector<Progress>& trials) {
  const std::vector<std::int64_t> rungs = rungs_of(options);
  std::vector<Decision> decisions;
  for (std::size_t rung = 0; rung + 1 < rungs.size(); ++rung) {
    const std::vector<Standing> standings = standings_at(rungs, rung, goal, trials);
    const std::size_t best =
        std::max<std::size_t>(1, standings.size() / static_cast<std::size_t>(options.factor));
    for (std::size_t i = 0; i < standings.size(); ++i) {
      const Progress& trial = *standings[i].trial;
      const bool judged = trial.until > rungs[rung] || has_come_to(trial, rungs[rung + 1]);
      if (trial.state != TrialState::running || judged) continue;
      if (i < best && standings[i].cost != worst) {
        decisions.push_back({Decision::Kind::promote, trial.number, rungs[rung + 1]});
      } else {
        decisions.push_back({Decision::Kind::stop, trial.number, rungs[rung]});
      }
    }
  }
  std::ranges::sort(decisions, {}, &Decision::number);
  return decisions;
}

std::vector<int> median_stops(const MedianOptions& options, Goal goal, const std::vector<Progress>& trials) {
  std::vector<int> stops;
  std::vector<Means> done;
  for (const Progress& trial : trials) {
    if (trial.state == TrialState::succeeded) done.push_back(running_means(trial, goal));
  }
  if (done.size() < static_cast<std::size_t>(std::max(1, options.min_trials))) return stops;
  for (const Progress& trial : trials) {
    if (trial.state != TrialState::running || trial.reports.empty()) continue;
    std::int64_t resource = 0;
    double best = worst;
    for (const auto& [at, value] : trial.reports) {
      resource = std::max(resource, at);
      best = std::min(best, cost_of(goal, value));
    }
    if (resource < options.grace) continue;
    std::vector<double> means;
    for (const Means& other : done) means.push_back(mean_up_to(other, resource));
    if (best > median_of(means)) stops.push_back(trial.number);
  }
  std::sort(stops.begin(), stops.end());
  return stops;
}

}  // namespace mlk::sweeps
