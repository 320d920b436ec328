#include "sweeps/search/decide.h"

#include <algorithm>
#include <set>

#include "sweeps/search/tpe.h"

namespace mlk::sweeps {
namespace {

// The first points without a trial, at most one for each free place.
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

// One suggestion for each free place. The search treats each earlier suggestion as a running trial.
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

std::vector<Point> next_points(const Spec& spec, const std::vector<Point>& points,
                               const std::vector<Trial>& trials, int free) {
  return spec.search.kind == Search::Kind::tpe ? next_suggested(spec, trials, free)
                                               : next_listed(points, trials, free);
}

bool pauses(const Spec& spec) { return spec.stop.rule == EarlyStop::Rule::asha && spec.stop.resumes; }

Objective::Goal goal_of(const Spec& spec) {
  return spec.objective ? spec.objective->goal : Objective::Goal::minimize;
}

// In a sweep that pauses trials, a trial without a decision was started with the first rung as its limit.
std::vector<Progress> progress_of(const Spec& spec, const std::vector<Trial>& trials) {
  const std::int64_t first = pauses(spec) ? rungs_of(spec.stop.asha).front() : 0;
  std::vector<Progress> out;
  for (const Trial& trial : trials)
    out.push_back({trial.number, trial.state, trial.until > 0 ? trial.until : first, trial.curve});
  return out;
}

// Whether the trial is paused at its rung. A paused trial occupies none of the parallel places.
bool is_paused(const Progress& trial) {
  return trial.state == TrialState::waiting && trial.until > 0 && !trial.reports.empty() &&
         trial.reports.back().first >= trial.until;
}

int places_left(const Spec& spec, const std::vector<Progress>& trials) {
  const auto going_on = std::count_if(trials.begin(), trials.end(), [&](const Progress& trial) {
    return !has_ended(trial.state) && !(pauses(spec) && is_paused(trial));
  });
  return spec.parallel - static_cast<int>(going_on);
}

std::vector<Decision> judge(const Spec& spec, const std::vector<Progress>& trials, int free, int unstarted) {
  if (pauses(spec)) return asha_promotions(spec.stop.asha, goal_of(spec), trials, free, unstarted);
  if (spec.stop.rule == EarlyStop::Rule::asha) return asha_stops(spec.stop.asha, goal_of(spec), trials);
  std::vector<Decision> out;
  if (spec.stop.rule == EarlyStop::Rule::median) {
    for (const int number : median_stops(spec.stop.median, goal_of(spec), trials))
      out.push_back({Decision::Kind::stop, number, 0});
  }
  return out;
}

// Stops all paused trials. Call this function only if none of them can be resumed any more.
std::vector<Decision> stops_of_paused(const std::vector<Progress>& trials) {
  std::vector<Decision> out;
  for (const Progress& trial : trials) {
    if (is_paused(trial)) out.push_back({Decision::Kind::stop, trial.number, trial.until});
  }
  return out;
}

}  // namespace

std::optional<Point> suggest(const Spec& spec, const std::vector<Trial>& trials) {
  std::vector<Told> told;
  for (const Trial& trial : trials) {
    const bool paused = trial.state == TrialState::waiting && trial.until > 0 && trial.objective;
    const bool good = trial.state == TrialState::succeeded || trial.state == TrialState::stopped || paused;
    told.push_back({trial.point, good ? trial.objective : std::nullopt, !has_ended(trial.state) && !paused});
  }
  return suggest_tpe(spec.space, goal_of(spec), {.seed = spec.search.seed, .start = spec.search.start}, told);
}

NextStep decide(const Spec& spec, const std::vector<Point>& points, const std::vector<Trial>& trials,
                int max_failures) {
  NextStep out;
  const std::vector<Progress> progress = progress_of(spec, trials);
  const auto failed = std::ranges::count(trials, TrialState::failed, &Trial::state);
  out.hopeless = failed > max_failures;
  if (!out.hopeless) {
    int free = places_left(spec, progress);
    out.start = next_points(spec, points, trials, free);
    out.judged = judge(spec, progress, free, static_cast<int>(out.start.size()));
    // Resumed trials also occupy places, so only as many new trials start as judge() has decided to start.
    if (pauses(spec)) {
      const auto starts = std::erase_if(
          out.judged, [](const Decision& decision) { return decision.kind == Decision::Kind::start; });
      out.start.resize(starts);
    }
  }
  const bool none_goes_on = places_left(spec, progress) == spec.parallel;
  if (pauses(spec) && none_goes_on && out.start.empty() && out.judged.empty())
    out.judged = stops_of_paused(progress);
  out.ended = none_goes_on && out.start.empty() && out.judged.empty();
  return out;
}

NextStep without_starts(NextStep next, const std::vector<Trial>& trials) {
  next.start.clear();
  std::erase_if(next.judged, [&](const Decision& decision) {
    return decision.kind == Decision::Kind::promote && std::ranges::any_of(trials, [&](const Trial& trial) {
             return trial.number == decision.number && trial.state == TrialState::waiting;
           });
  });
  return next;
}

}  // namespace mlk::sweeps
