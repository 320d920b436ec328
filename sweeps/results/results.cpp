#include "sweeps/results/results.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"
#include "cli/where/number_order.h"
#include "sweeps/results/result_cells.h"
#include "sweeps/space/ranking.h"

namespace mlk::sweeps {
namespace {

using json = nlohmann::json;

constexpr std::size_t most_parameter_columns = 512;  // of parameters that are not in the space
constexpr std::size_t most_metric_columns = 256;

// The paths of all parameters: first the parameters of the space in its order, then further parameters of the
// trials.
std::vector<std::string> parameter_paths(const std::vector<Trial>& trials, const Space& space) {
  std::vector<std::string> paths;
  std::set<std::string> known;
  for (const Parameter& parameter : space.parameters) {
    if (known.insert(parameter.path).second) paths.push_back(parameter.path);
  }
  std::set<std::string> others;
  for (const Trial& trial : trials) {
    for (const auto& [path, value] : trial.point) {
      if (!known.contains(path) && others.size() < most_parameter_columns) others.insert(path);
    }
  }
  paths.insert(paths.end(), others.begin(), others.end());
  return paths;
}

// Whether the space or the trials have several values for this parameter.
bool parameter_varies(const std::string& path, const std::vector<Trial>& trials, const Space& space) {
  const auto parameter = std::ranges::find(space.parameters, path, &Parameter::path);
  if (parameter != space.parameters.end() && varies(*parameter)) return true;
  return std::any_of(trials.begin(), trials.end(), [&](const Trial& trial) {
    return value_at(trial.point, path) != value_at(trials.front().point, path);
  });
}

// The last `words` words of a path, or the whole path if it has at most so many words.
std::string path_tail(const std::string& path, std::size_t words) {
  std::size_t at = path.size();
  for (; words > 0 && at != std::string::npos && at > 0; --words) at = path.rfind('.', at - 1);
  return at == std::string::npos || words > 0 ? path : path.substr(at + 1);
}

// Makes names unique among the columns.
class ColumnNames {
 public:
  void reserve(const std::string& name) { taken_.insert(name); }

  std::string of_parameter(const std::string& path, const std::vector<std::string>& paths) {
    const auto words = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.')) + 1;
    for (std::size_t count = 1; count <= words; ++count) {
      const std::string name = path_tail(path, count);
      const auto same = std::ranges::count_if(
          paths, [&](const std::string& other) { return path_tail(other, count) == name; });
      if (same == 1 && taken_.insert(name).second) return name;
    }
    // The loop finds no name if another path ends with this whole path, or if the names are taken.
    return taken_.insert(path).second ? path : otherwise(path, "parameters");
  }

  std::string of_metric(const std::string& metric) {
    return taken_.insert(metric).second ? metric : otherwise(metric, "metrics");
  }

 private:
  std::string otherwise(const std::string& name, const std::string& prefix) {
    const std::string longer = prefix + "." + name;
    return taken_.insert(longer).second ? longer : otherwise(longer, prefix);
  }

  std::set<std::string> taken_;
};

std::set<std::string> other_metrics(const std::vector<Trial>& trials, const Objective& objective) {
  std::set<std::string> metrics;
  for (const Trial& trial : trials) {
    if (!trial.metrics.is_object()) continue;
    for (const auto& [metric, value] : trial.metrics.items()) {
      // If the objective is the last value of this metric, the objective's column already shows this value.
      if (metric == objective.metric && objective.of == Objective::Of::last) continue;
      if (metrics.size() < most_metric_columns) metrics.insert(metric);
    }
  }
  return metrics;
}

std::vector<Column> result_columns(const std::vector<Trial>& trials, const Objective& objective,
                                   const Space& space, bool wide) {
  ColumnNames names;
  for (const char* name : {"trial", "state", "objective", "duration", "tries", "failure"})
    names.reserve(name);
  std::vector<Column> columns{{Column::Kind::trial, "trial", ""}, {Column::Kind::state, "state", ""}};
  if (!objective.metric.empty())
    columns.push_back({Column::Kind::objective, names.of_metric(objective.metric), objective.metric});
  const std::vector<std::string> paths = parameter_paths(trials, space);
  for (const std::string& path : paths) {
    const std::string name = names.of_parameter(path, paths);
    if (wide || parameter_varies(path, trials, space))
      columns.push_back({Column::Kind::parameter, name, path});
  }
  if (wide) {
    for (const std::string& metric : other_metrics(trials, objective))
      columns.push_back({Column::Kind::metric, names.of_metric(metric), metric});
  }
  columns.push_back({Column::Kind::duration, "duration", ""});
  columns.push_back({Column::Kind::tries, "tries", ""});
  const bool any_failed =
      std::any_of(trials.begin(), trials.end(), [](const Trial& trial) { return !trial.failure.empty(); });
  if (wide || any_failed) columns.push_back({Column::Kind::failure, "failure", ""});
  return columns;
}

// The duration, rounded to milliseconds. Times in a ledger may be too far apart for a difference in
// nanoseconds.
json seconds_of(const Trial& trial) {
  if (!trial.started || !trial.ended) return nullptr;
  const auto milliseconds = [](Time time) {
    return std::chrono::duration<double, std::milli>(time.time_since_epoch()).count();
  };
  return std::max(std::round(milliseconds(*trial.ended) - milliseconds(*trial.started)), 0.0) / 1000;
}

json result_cell(const Column& column, const Trial& trial) {
  switch (column.kind) {
    case Column::Kind::trial:
      return trial.number;
    case Column::Kind::state:
      return std::string(to_string(trial.state));
    case Column::Kind::objective:
      return trial.objective ? json(*trial.objective) : json();
    case Column::Kind::parameter:
      return value_at(trial.point, column.of);
    case Column::Kind::metric:
      return trial.metrics.is_object() ? trial.metrics.value(column.of, json()) : json();
    case Column::Kind::duration:
      return seconds_of(trial);
    case Column::Kind::tries:
      return trial.tries;
    case Column::Kind::failure:
      return trial.failure.empty() ? json() : json(trial.failure);
  }
  return nullptr;
}

Column column_named(const std::string& name, const std::vector<Column>& columns) {
  const auto is_named = [&](const Column& column) {
    return column.name == name || (column.kind == Column::Kind::parameter && column.of == name) ||
           (column.kind == Column::Kind::objective && name == "objective");
  };
  const auto exact = std::find_if(columns.begin(), columns.end(), is_named);
  if (exact != columns.end()) return *exact;
  // A terminal shows the names in capitals, so the comparison ignores case.
  const auto same = [&](const Column& column) { return lower_case(column.name) == lower_case(name); };
  const auto near = std::find_if(columns.begin(), columns.end(), same);
  if (near != columns.end()) return *near;
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back(column.name);
  throw Error(ExitCode::usage,
              printable(fmt::format("there is no column '{}'{}", name, did_you_mean(name, names))),
              printable("sort by one of: " + join(names, ", ")));
}

bool cell_is_nothing(const json& cell) {
  return cell.is_null() || (cell.is_number_float() && std::isnan(cell.get<double>()));
}

// Numbers come before texts. Numbers are compared by value, and texts by their characters. Neither argument
// is null.
bool cell_is_less(const json& a, const json& b) {
  if (a.is_number() != b.is_number()) return a.is_number();
  return a.is_number() ? order_of_numbers(a, b) < 0 : plain_cell(a) < plain_cell(b);
}

}  // namespace

std::vector<Trial> in_order(const std::vector<Trial>& trials, const Objective& objective, const Space& space,
                            const Order& order) {
  std::vector<std::size_t> indices(trials.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  std::sort(indices.begin(), indices.end(),
            [&](std::size_t a, std::size_t b) { return ranks_before(trials[a], trials[b], objective); });
  if (!order.sort.empty()) {
    const bool falling = order.sort.starts_with('-');
    const Column column =
        column_named(order.sort.substr(falling ? 1 : 0), result_columns(trials, objective, space, true));
    std::vector<json> cells;
    for (const Trial& trial : trials) cells.push_back(result_cell(column, trial));
    std::stable_sort(indices.begin(), indices.end(), [&](std::size_t i, std::size_t j) {
      const json &a = cells[i], &b = cells[j];
      if (cell_is_nothing(a) || cell_is_nothing(b)) return !cell_is_nothing(a) && cell_is_nothing(b);
      return falling ? cell_is_less(b, a) : cell_is_less(a, b);
    });
  }
  if (order.top > 0 && order.top < indices.size()) indices.resize(order.top);
  std::vector<Trial> sorted;
  sorted.reserve(indices.size());
  for (const std::size_t i : indices) sorted.push_back(trials[i]);
  return sorted;
}

ResultTable result_table(const std::vector<Trial>& trials, const Objective& objective, const Space& space,
                         bool wide) {
  ResultTable table;
  table.columns = result_columns(trials, objective, space, wide);
  for (const Trial& trial : trials) {
    std::vector<json>& row = table.rows.emplace_back();
    for (const Column& column : table.columns) row.push_back(result_cell(column, trial));
  }
  return table;
}

json results_json(const std::vector<Trial>& trials) {
  const auto time = [](const std::optional<Time>& at) { return at ? json(format_time(*at)) : json(); };
  json out = json::array();
  for (const Trial& trial : trials) {
    out.push_back({{"trial", trial.number},
                   {"hash", trial.hash},
                   {"state", std::string(to_string(trial.state))},
                   {"tries", trial.tries},
                   {"step", trial.step},
                   {"objective", trial.objective ? json(*trial.objective) : json()},
                   {"parameters", json(trial.point)},
                   {"metrics", trial.metrics.is_object() ? trial.metrics : json::object()},
                   {"curve", json(trial.curve)},
                   {"started", time(trial.started)},
                   {"ended", time(trial.ended)},
                   {"failure", trial.failure.empty() ? json() : json(trial.failure)}});
  }
  return out;
}

}  // namespace mlk::sweeps
