#include "sweeps/space/objective.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "cli/experiment/suggest.h"
#include "cli/experiment/values.h"
#include "cli/run/facts/metrics.h"
#include "cli/util/pattern.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

constexpr int most_values = 1000;  // of a mean
constexpr char goal_choices[] = "maximize|minimize";
constexpr char of_choices[] = "last|best|mean";

bool is_objective_text(const YamlNode& node) { return node.kind == YamlNode::Kind::scalar; }

std::optional<Objective::Goal> goal_named(std::string_view word) {
  if (word == "maximize") return Objective::Goal::maximize;
  if (word == "minimize") return Objective::Goal::minimize;
  return std::nullopt;
}

// Sets the metric, which must be a valid key of a metrics line.
void read_metric(const std::string& metric, const Place& place, Objective& objective, Problems& problems) {
  const bool plain = std::all_of(metric.begin(), metric.end(),
                                 [](char c) { return c > 0x20 && c < 0x7f && c != '=' && c != '"'; });
  if (metric.empty() || metric.size() > longest_metrics_word || !plain) {
    problems.add(place, fmt::format("a metric's name is one word of at most {} plain characters without '=' "
                                    "and quotes, such as accuracy",
                                    longest_metrics_word));
  }
  objective.metric = metric;
}

void read_short_form(const YamlNode& node, const std::string& path, Objective& objective,
                     Problems& problems) {
  const std::string_view text = trim(node.text);
  const std::string word(text.substr(0, text.find_first_of(" \t")));
  const std::string metric(trim(text.substr(word.size())));
  const std::optional<Objective::Goal> goal = goal_named(word);
  if (!goal || metric.empty()) {
    problems.add(node.place, fmt::format("{} must be `maximize METRIC` or `minimize METRIC`, not {}{}", path,
                                         describe(node), goal ? "" : suggest_choice(word, goal_choices)));
    return;
  }
  objective.goal = *goal;
  read_metric(metric, node.place, objective, problems);
}

void read_of(const YamlNode& node, const std::string& path, Objective& objective, Problems& problems) {
  constexpr std::array<std::pair<std::string_view, Objective::Of>, 3> names{
      {{"last", Objective::Of::last}, {"best", Objective::Of::best}, {"mean", Objective::Of::mean}}};
  for (const auto& [name, of] : names) {
    if (!is_objective_text(node) || node.text != name) continue;
    objective.of = of;
    return;
  }
  problems.add(node.place, fmt::format("{}.of must be last, best or mean, not {}{}", path, describe(node),
                                       is_objective_text(node) ? suggest_choice(node.text, of_choices) : ""));
}

void read_count(const YamlNode& node, const std::string& path, Objective& objective, Problems& problems) {
  const bool whole = is_objective_text(node) && is_whole_number(node.text) && node.text.size() <= 4;
  const int count = whole ? std::stoi(node.text) : 0;
  if (count >= 1 && count <= most_values) {
    objective.count = count;
  } else {
    problems.add(node.place, fmt::format("{}.count must be a whole number from 1 to {}, not {}", path,
                                         most_values, describe(node)));
  }
}

void read_regex(const YamlNode& node, const std::string& path, Objective& objective, Problems& problems) {
  if (!is_objective_text(node)) {
    problems.add(node.place, fmt::format("{}.regex must be text, not {}", path, describe(node)));
  } else if (const std::string why = why_no_regex(node.text); !why.empty()) {
    problems.add(node.place, fmt::format("{}.regex {}", path, why));
  } else {
    objective.regex = node.text;
  }
}

void read_goal(const YamlEntry& entry, const std::string& path, Objective& objective, Problems& problems) {
  objective.goal = *goal_named(entry.key);
  if (is_objective_text(entry.value)) {
    read_metric(entry.value.text, entry.value.place, objective, problems);
  } else {
    problems.add(entry.value.place, fmt::format("{}.{} must be the name of a metric, not {}", path, entry.key,
                                                describe(entry.value)));
  }
}

void read_long_form(const YamlNode& node, const std::string& path, Objective& objective, Problems& problems) {
  int goals = 0;
  const YamlEntry* count = nullptr;
  for (const YamlEntry& entry : node.entries) {
    if (goal_named(entry.key)) {
      if (++goals == 2) problems.add(entry.place, path + " has one goal: maximize or minimize, not both");
      read_goal(entry, path, objective, problems);
    } else if (entry.key == "of") {
      read_of(entry.value, path, objective, problems);
    } else if (entry.key == "count") {
      count = &entry;
      read_count(entry.value, path, objective, problems);
    } else if (entry.key == "regex") {
      read_regex(entry.value, path, objective, problems);
    } else {
      problems.add(entry.place, fmt::format("unknown key '{}' in {}{}", entry.key, path,
                                            suggest_choice(entry.key, "maximize|minimize|of|count|regex")));
    }
  }
  if (goals == 0) {
    problems.add(node.place, fmt::format("{} needs `maximize: METRIC` or `minimize: METRIC`", path));
  }
  const YamlNode* of = node.find("of");
  const bool mean = of != nullptr && of->text == "mean";
  if (mean && count == nullptr) {
    problems.add(of->place,
                 fmt::format("{}.count is missing: the mean of how many of the last values", path));
  } else if (!mean && count != nullptr) {
    problems.add(count->place, fmt::format("{}.count goes with `of: mean` only", path));
  }
}

}  // namespace

std::optional<Objective> read_objective(const YamlNode& node, const std::string& path, Problems& problems) {
  const std::size_t known_problems = problems.size();
  Objective objective;
  if (is_objective_text(node)) {
    read_short_form(node, path, objective, problems);
  } else if (node.kind == YamlNode::Kind::map) {
    read_long_form(node, path, objective, problems);
  } else {
    problems.add(node.place, fmt::format("{} must be `maximize METRIC`, `minimize METRIC` or a map, not {}",
                                         path, describe(node)));
  }
  if (problems.size() > known_problems) return std::nullopt;
  return objective;
}

std::string why_no_regex(const std::string& text) {
  if (const std::string why = why_no_pattern(text); !why.empty()) return why;
  return groups_in_pattern(text) > 0 ? "" : "needs a group in parentheses that matches the number";
}

bool is_better(const Objective& objective, double a, double b) {
  return objective.goal == Objective::Goal::minimize ? a < b : a > b;
}

std::optional<double> value_of(const Objective& objective,
                               const std::vector<std::pair<std::int64_t, double>>& reports) {
  if (reports.empty()) return std::nullopt;
  if (objective.of == Objective::Of::best) {
    std::optional<double> best;
    for (const auto& [step, value] : reports) {
      if (std::isfinite(value) && (!best || is_better(objective, value, *best))) best = value;
    }
    return best;
  }
  // For Objective::Of::last, this is the mean of one value.
  const std::size_t wanted =
      objective.of == Objective::Of::mean ? static_cast<std::size_t>(std::max(objective.count, 1)) : 1;
  const std::size_t count = std::min(wanted, reports.size());
  double sum = 0;
  for (std::size_t i = reports.size() - count; i < reports.size(); ++i) sum += reports[i].second;
  const double mean = sum / static_cast<double>(count);
  return std::isfinite(mean) ? std::optional(mean) : std::nullopt;
}

}  // namespace mlk::sweeps
