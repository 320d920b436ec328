#include "sweeps/results/report_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/results/importance.h"
#include "sweeps/space/ranking.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

bool has_value(const Trial& trial) { return trial.objective && std::isfinite(*trial.objective); }

// The text without characters that change the display of their neighbours, cut to `bytes`.
std::string shown(const std::string& text, std::size_t bytes) {
  const std::string safe = printable(text);
  return safe.size() <= bytes ? safe : std::string(cut(safe, bytes)) + "…";
}

// Numbers stay numbers, so that the page sorts them as numbers. A null in a point is a value, but the page
// would read null as no value, so a null becomes text.
json shown_value(const json& value, const ReportBounds& bounds) {
  if (value.is_number()) return std::isfinite(value.get<double>()) ? value : json(json_text(value));
  if (value.is_string()) return shown(value.get_ref<const std::string&>(), bounds.text);
  return shown(json_text(value), bounds.text);
}

double seconds_since_1970(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// The duration of a trial. For a running trial, the time until now. Nothing if the start is unknown, or if
// the end is unknown and the trial does not run.
std::optional<double> seconds_taken(const Trial& trial, Time now) {
  if (!trial.started || (!trial.ended && trial.state != TrialState::running)) return std::nullopt;
  return std::max(0.0, std::chrono::duration<double>(trial.ended.value_or(now) - *trial.started).count());
}

// At most `most` indices from 0 to count - 1, evenly spaced, both ends included.
std::vector<std::size_t> evenly(std::size_t count, std::size_t most) {
  std::vector<std::size_t> found;
  const std::size_t taken = std::min(count, most);
  for (std::size_t i = 0; i < taken; ++i)
    found.push_back(taken == 1 ? count - 1 : i * (count - 1) / (taken - 1));
  return found;
}

std::string dropped(const std::string& what, std::size_t shown_count, std::size_t all) {
  return what + ": " + std::to_string(shown_count) + " of " + std::to_string(all);
}

std::vector<Parameter> shown_parameters(const Space& space, const ReportBounds& bounds) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(space.parameters.size(), bounds.parameters));
  return {space.parameters.begin(), space.parameters.begin() + count};
}

json parameter_json(const Parameter& parameter, const ReportBounds& bounds) {
  static const std::map<Parameter::Kind, std::string> kinds = {{Parameter::Kind::choice, "choice"},
                                                               {Parameter::Kind::uniform, "uniform"},
                                                               {Parameter::Kind::log_uniform, "log"},
                                                               {Parameter::Kind::integer, "integer"},
                                                               {Parameter::Kind::log_integer, "log"}};
  json values = json::array();
  constexpr std::size_t most_values = 100;  // from the space; data.js adds further values that trials have
  for (std::size_t i = 0; i < std::min(parameter.values.size(), most_values); ++i)
    values.push_back(shown_value(parameter.values[i], bounds));
  return {{"path", shown(parameter.path, bounds.text)},
          {"kind", kinds.at(parameter.kind)},
          {"values", values},
          {"conditional", !parameter.when.empty()}};
}

// The metrics that have a number as their last value in at least one trial, except the objective's metric.
// They are sorted by the number of these trials, the largest number first.
std::vector<std::string> metric_names(const ReportData& data) {
  std::map<std::string, std::size_t> counts;
  constexpr std::size_t most_names = 1000;
  for (const Trial& trial : data.trials) {
    if (!trial.metrics.is_object()) continue;
    for (const auto& [name, value] : trial.metrics.items()) {
      if (!value.is_number() || name == data.objective.metric) continue;
      if (counts.size() < most_names || counts.count(name) == 1) ++counts[name];
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, count] : counts) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return counts[a] > counts[b]; });
  return names;
}

json metrics_json(const Trial& trial, const std::vector<std::string>& names) {
  json values = json::array();
  for (const std::string& name : names) {
    const bool there = trial.metrics.is_object() && trial.metrics.contains(name) &&
                       trial.metrics[name].is_number() && std::isfinite(trial.metrics[name].get<double>());
    values.push_back(there ? trial.metrics[name] : json());
  }
  return values;
}

json trial_json(const Trial& trial, const std::vector<Parameter>& parameters,
                const std::vector<std::string>& metrics, Time now, const ReportBounds& bounds) {
  json values = json::array();
  for (const Parameter& parameter : parameters) {
    const auto found = trial.point.find(parameter.path);
    values.push_back(found == trial.point.end() ? json() : shown_value(found->second, bounds));
  }
  json row = {{"n", trial.number},
              {"h", shown(trial.hash, bounds.text)},
              {"s", to_string(trial.state)},
              {"o", has_value(trial) ? json(*trial.objective) : json()},
              {"v", values},
              {"t", trial.tries},
              {"e", trial.step}};
  if (const std::optional<double> taken = seconds_taken(trial, now)) row["d"] = std::round(*taken * 10) / 10;
  if (!metrics.empty()) row["m"] = metrics_json(trial, metrics);
  if (!trial.failure.empty()) row["f"] = shown(trial.failure, bounds.failure);
  return row;
}

json curve_json(const Trial& trial, const ReportBounds& bounds) {
  json points = json::array();
  std::vector<std::pair<std::int64_t, double>> finite;
  for (const auto& point : trial.curve) {
    if (std::isfinite(point.second)) finite.push_back(point);
  }
  for (const std::size_t i : evenly(finite.size(), bounds.points))
    points.push_back({finite[i].first, finite[i].second});
  return points;
}

json importance_json(const ReportData& data, const ReportBounds& bounds) {
  const Importance found = importance(data.space, data.trials, data.objective);
  json effects = json::array();
  for (const Effect& effect : found.effects) {
    if (effects.size() == bounds.parameters) break;
    effects.push_back({{"path", shown(effect.path, bounds.text)},
                       {"with", shown(effect.with, bounds.text)},
                       {"share", effect.share}});
  }
  return {{"effects", effects}, {"trials", found.trials}, {"fit", found.fit}, {"reason", found.reason}};
}

json times_json(const ReportData& data, const ReportBounds& bounds) {
  json paths = json::array(), rows = json::array();
  const std::vector<std::string> names = count_paths(data.space);
  for (const std::string& path : names) paths.push_back(shown(path, bounds.text));
  for (const CountTimes& each : times_by_count(data.space, data.trials)) {
    if (rows.size() == bounds.drawn) break;
    json counts = json::array();
    for (const std::string& path : names) {
      const auto found = each.counts.find(path);
      counts.push_back(found == each.counts.end() ? json() : shown_value(found->second, bounds));
    }
    rows.push_back({{"counts", counts},
                    {"trials", each.trials},
                    {"shortest", each.shortest},
                    {"median", each.median},
                    {"longest", each.longest},
                    {"speedup", each.speedup}});
  }
  return {{"paths", paths}, {"rows", rows}};
}

// Adds the trials of the table. Charts and curves refer to a trial by its row in the table.
void add_trials(json& page, const ReportData& data, const std::vector<Parameter>& parameters,
                const ReportBounds& bounds) {
  std::vector<std::string> metrics = metric_names(data);
  const std::size_t all_metrics = metrics.size();
  metrics.resize(std::min(all_metrics, bounds.metrics));
  page["metrics"] = json::array();
  for (const std::string& name : metrics) page["metrics"].push_back(shown(name, bounds.text));
  const auto of = [&](const std::vector<std::size_t>& candidates, std::size_t most) {
    return representative(data.trials, data.objective, candidates, most);
  };
  const std::vector<std::size_t> rows = of(evenly(data.trials.size(), data.trials.size()), bounds.rows);
  std::vector<std::size_t> with_curve, with_value;
  std::map<std::size_t, std::size_t> place;
  for (const std::size_t i : rows) {
    place[i] = page["trials"].size();
    page["trials"].push_back(trial_json(data.trials[i], parameters, metrics, data.made, bounds));
    if (!data.trials[i].curve.empty()) with_curve.push_back(i);
    if (has_value(data.trials[i])) with_value.push_back(i);
  }
  for (const std::size_t i : of(with_curve, bounds.curves))
    page["curves"].push_back({{"row", place.at(i)}, {"points", curve_json(data.trials[i], bounds)}});
  for (const std::size_t i : of(with_value, bounds.drawn)) page["drawn"].push_back(place.at(i));
  if (const auto best = best_of(data.trials, data.objective); best && place.count(*best))
    page["best"] = place.at(*best);

  page["curvesOf"] = with_curve.size();
  page["drawnOf"] = with_value.size();

  json& notes = page["notes"];
  if (metrics.size() < all_metrics)
    notes.push_back(dropped("metrics in the table, the most frequent ones", metrics.size(), all_metrics));
  if (rows.size() < data.trials.size())
    notes.push_back(
        dropped("trials in the table, the best ones and an even sample", rows.size(), data.trials.size()));
  if (with_curve.size() > bounds.curves)
    notes.push_back(
        dropped("learning curves, the best ones and an even sample", bounds.curves, with_curve.size()));
  if (with_value.size() > bounds.drawn)
    notes.push_back(dropped("trials in charts of the parameters, the best ones and an even sample",
                            bounds.drawn, with_value.size()));
}

json page_of(const ReportData& data, const ReportBounds& bounds) {
  json page = {{"title", shown(data.title, bounds.text)},
               {"namespace", shown(data.name_space, bounds.text)},
               {"description", shown(data.description, bounds.failure)},
               {"made", format_time(data.made)},
               {"madeSeconds", seconds_since_1970(data.made)},
               {"version", shown(data.version, bounds.text)},
               {"metric", shown(data.objective.metric, bounds.text)},
               {"goal", data.objective.goal == Objective::Goal::minimize ? "minimize" : "maximize"},
               {"best", nullptr}};
  switch (data.objective.of) {
    case Objective::Of::last:
      page["of"] = "the last value";
      break;
    case Objective::Of::best:
      page["of"] = "the best value";
      break;
    case Objective::Of::mean:
      page["of"] = "the mean of the last " + std::to_string(data.objective.count) + " values";
  }
  for (const char* list : {"parameters", "trials", "curves", "drawn", "notes"}) page[list] = json::array();
  page["states"] = json::object();
  for (const Trial& trial : data.trials) {
    json& count = page["states"][std::string(to_string(trial.state))];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  const std::vector<Parameter> parameters = shown_parameters(data.space, bounds);
  for (const Parameter& parameter : parameters)
    page["parameters"].push_back(parameter_json(parameter, bounds));
  add_trials(page, data, parameters, bounds);
  if (parameters.size() < data.space.parameters.size())
    page["notes"].push_back(
        dropped("parameters, the first ones", parameters.size(), data.space.parameters.size()));
  return page;
}

double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

std::optional<std::size_t> best_of(const std::vector<Trial>& trials, const Objective& objective) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (!has_rank(trials[i])) continue;
    if (!best || is_better(objective, *trials[i].objective, *trials[*best].objective)) best = i;
  }
  return best;
}

std::vector<std::size_t> representative(const std::vector<Trial>& trials, const Objective& objective,
                                        const std::vector<std::size_t>& candidates, std::size_t most) {
  if (candidates.size() <= most) return candidates;
  // Failed trials come last, even if they have a value, since best_of() ignores failed trials.
  std::vector<std::size_t> order = candidates;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool a_counts = has_rank(trials[a]), b_counts = has_rank(trials[b]);
    if (!a_counts || !b_counts) return a_counts && !b_counts;
    return is_better(objective, *trials[a].objective, *trials[b].objective);
  });
  const std::size_t best = (most + 4) / 5;
  std::set<std::size_t> taken(order.begin(),
                              order.begin() + static_cast<std::ptrdiff_t>(std::min(best, most)));
  std::vector<std::size_t> others;
  for (const std::size_t each : candidates) {
    if (taken.count(each) == 0) others.push_back(each);
  }
  for (const std::size_t i : evenly(others.size(), most - taken.size())) taken.insert(others[i]);
  return {taken.begin(), taken.end()};
}

std::vector<std::string> count_paths(const Space& space) {
  static const std::set<std::string> words = {"count", "nodes", "workers"};
  std::vector<std::string> found;
  for (const Parameter& parameter : space.parameters) {
    const std::string word =
        parameter.path.substr(parameter.path.rfind('.') + 1);  // the whole path if it has no dot
    if (varies(parameter) && words.count(word) == 1) found.push_back(parameter.path);
  }
  return found;
}

std::vector<CountTimes> times_by_count(const Space& space, const std::vector<Trial>& trials) {
  const std::vector<std::string> paths = count_paths(space);
  if (paths.empty()) return {};
  std::map<std::vector<json>, std::vector<double>> groups;  // JSON sorts numbers by value
  for (const Trial& trial : trials) {
    const std::optional<double> taken = trial.ended ? seconds_taken(trial, *trial.ended) : std::nullopt;
    if (trial.state != TrialState::succeeded || !taken) continue;
    std::vector<json> counts;
    for (const std::string& path : paths) counts.push_back(value_at(trial.point, path));
    groups[counts].push_back(*taken);
  }
  std::vector<CountTimes> rows;
  for (auto& [counts, seconds] : groups) {
    std::sort(seconds.begin(), seconds.end());
    CountTimes row;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!counts[i].is_null()) row.counts[paths[i]] = counts[i];
    }
    row.trials = seconds.size();
    row.shortest = seconds.front();
    row.median = median_of_sorted(seconds);
    row.longest = seconds.back();
    rows.push_back(std::move(row));
    if (rows.back().median > 0) rows.back().speedup = rows.front().median / rows.back().median;
  }
  return rows;
}

nlohmann::json report_data(const ReportData& data, const ReportBounds& bounds) {
  const json shared_parts = {{"importance", importance_json(data, bounds)},
                             {"times", times_json(data, bounds)}};
  ReportBounds tried = bounds;
  while (true) {
    json page = page_of(data, tried);
    page.update(shared_parts);
    if (tried.rows == 0 || script_json(page).size() <= bounds.bytes) return page;
    if (tried.metrics > 0) {
      tried.metrics = 0;  // leaves out metrics rather than trials
    } else {
      tried.rows = std::min(tried.rows, data.trials.size()) / 2;
    }
  }
}

std::string script_json(const nlohmann::json& value) {
  // Escapes characters that JSON has only inside strings, since "</script>" or "<!--" in a string would end
  // the element or change how it is read. json_text() has already escaped line separators.
  return replaced(json_text(value), {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

}  // namespace mlk::sweeps
