#include "sweeps/decide.h"

#include <algorithm>
#include <set>

#include "sweeps/tpe.h"

namespace mlk::sweeps {
namespace {

// As many as are free of the points that have no trial yet.
std::vector<Point> next_listed(const std::vector<Point>& points, const std::vector<Trial>& trials, int free) {
  std::set<std::string> known;
  for (const Trial& trial : trials) known.insert(trial.hash);
  std::vector<Point> out;
  for (const Point& point : points) {
    if (static_cast<int>(out.size()) >= free) break;
    if (known.insert(hash_of(point)).second) out.push_back(point);
  }
  return out;
}

// Each suggestion knows of those before it, as trials that run.
std::vector<Point> next_suggested(const Spec& spec, std::vector<Trial> trials, int free) {
  std::vector<Point> out;
  while (static_cast<int>(out.size()) < free && static_cast<int>(trials.size()) < spec.search.trials) {
    const std::optional<Point> point = suggest(spec, trials);
    if (!point) break;
    out.push_back(*point);
    Trial trial;
    trial.point = *point;
    trials.push_back(std::move(trial));
  }
  return out;
}

std::vector<int> trials_to_stop(const Spec& spec, const std::vector<Trial>& trials) {
  std::vector<Progress> progress;
  for (const Trial& trial : trials) progress.push_back({trial.number, trial.state, 0, trial.curve});
  const Objective::Goal goal = spec.objective ? spec.objective->goal : Objective::Goal::minimize;
  std::vector<int> out;
  if (spec.stop.rule == EarlyStop::Rule::median) out = median_stops(spec.stop.median, goal, progress);
  if (spec.stop.rule != EarlyStop::Rule::asha) return out;
  for (const Decision& decision : asha_stops(spec.stop.asha, goal, progress)) {
    if (decision.kind == Decision::Kind::stop) out.push_back(decision.number);
  }
  return out;
}

}  // namespace

std::optional<Point> suggest(const Spec& spec, const std::vector<Trial>& trials) {
  std::vector<Told> told;
  for (const Trial& trial : trials) {
    const bool good = trial.state == TrialState::succeeded || trial.state == TrialState::stopped;
    told.push_back({trial.point, good ? trial.objective : std::nullopt, !has_ended(trial.state)});
  }
  const Objective::Goal goal = spec.objective ? spec.objective->goal : Objective::Goal::minimize;
  TpeOptions options;
  options.seed = spec.search.seed;
  return suggest_tpe(spec.space, goal, options, told);
}

NextStep decide(const Spec& spec, const std::vector<Point>& points, const std::vector<Trial>& trials,
                int max_failures) {
  NextStep out;
  int going_on = 0, failed = 0;
  for (const Trial& trial : trials) {
    if (!has_ended(trial.state)) ++going_on;
    if (trial.state == TrialState::failed) ++failed;
  }
  out.hopeless = failed > max_failures;
  if (!out.hopeless) {
    const int free = spec.parallel - going_on;
    out.start = spec.search.kind == Search::Kind::tpe ? next_suggested(spec, trials, free)
                                                      : next_listed(points, trials, free);
  }
  if (!out.hopeless) out.stop = trials_to_stop(spec, trials);
  out.ended = going_on == 0 && out.start.empty();
  return out;
}

}  // namespace mlk::sweeps
