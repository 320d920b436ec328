#include "sweeps/space/reported.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/metrics.h"
#include "cli/run/facts/printed_metrics.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/number.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

constexpr std::size_t longest_report = 4096;  // bytes of a line
constexpr std::size_t longest_quote = 80;     // bytes of a line that is quoted

std::optional<std::int64_t> reported_step(double value) {
  if (!std::isfinite(value) || value < 0 || value >= most_steps) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

// The progress of a trial, from the steps and epochs in a line.
std::optional<std::int64_t> place_of(const std::string& position, std::optional<double> step,
                                     std::optional<double> epoch) {
  const std::optional<double> wanted = position == "epoch" ? epoch : step ? step : epoch;
  return wanted ? reported_step(*wanted) : std::nullopt;
}

// The end of the first word. A comma between digits belongs to a word: "12,000" is not 12.
std::size_t end_of_word(std::string_view line) {
  constexpr std::string_view between = " \t,;()[]{}";
  const auto is_digit = [&](std::size_t i) { return i < line.size() && line[i] >= '0' && line[i] <= '9'; };
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (between.find(line[i]) == std::string_view::npos) continue;
    const bool within_number = line[i] == ',' && i > 0 && is_digit(i - 1) && is_digit(i + 1);
    if (!within_number) return i;
  }
  return line.size();
}

// `loss=0.3` among words, as in "[train] step=10, loss=0.3".
std::optional<Reported> find_in_words(std::string_view line, const Objective& objective) {
  Reported reported;
  std::optional<double> step, epoch;
  bool found = false;
  const std::string metric = objective.metric + "=";
  while (!line.empty()) {
    // The metric's name may contain characters that end other words, as in metrics/mAP50(B).
    const std::size_t name = line.starts_with(metric) ? metric.size() : 0;
    const std::string_view word = line.substr(0, name + end_of_word(line.substr(name)));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    const std::size_t equals = name > 0 ? name - 1 : word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = word.substr(0, equals);
    std::string_view text = word.substr(equals + 1);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
    const std::optional<double> value = number_of_word(text);
    if (!value) continue;
    if (key == objective.metric) {
      reported.value = *value;
      found = true;
    }
    if (key == "step") step = value;
    if (key == "epoch") epoch = value;
  }
  reported.step = place_of(objective.position, step, epoch);
  return found ? std::optional(reported) : std::nullopt;
}

// Puts NaN, Infinity and -Infinity in quotes. Python writes these words into JSON, but the JSON parser
// accepts them only as text.
std::string with_quoted_words(std::string_view line) {
  constexpr std::string_view words[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') in_string = !in_string;
    for (const std::string_view word : words) {
      if (in_string || !line.substr(i).starts_with(word)) continue;
      out.append("\"").append(word).append("\"");
      i += word.size();
      break;
    }
    if (i >= line.size()) break;
    out += line[i];
    if (in_string && line[i] == '\\' && i + 1 < line.size()) out += line[++i];
  }
  return out;
}

std::optional<double> json_number(const nlohmann::json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  return metric_number(*found);
}

std::optional<Reported> find_in_json(std::string_view line, const Objective& objective) {
  constexpr JsonBounds bounds{.depth = 32, .values = 4096};
  nlohmann::json object = json_or_null(line, bounds);
  if (object.is_null()) object = json_or_null(with_quoted_words(line), bounds);
  if (!object.is_object()) return std::nullopt;
  const std::optional<double> value = json_number(object, objective.metric);
  if (!value) return std::nullopt;
  return Reported{place_of(objective.position, json_number(object, "step"), json_number(object, "epoch")),
                  *value};
}

std::optional<Reported> find_in_metrics(const Metrics& metrics, const Objective& objective) {
  const auto found = metrics.values.find(objective.metric);
  if (found == metrics.values.end()) return std::nullopt;
  const auto epoch = metrics.values.find("epoch");
  return Reported{place_of(objective.position, static_cast<double>(metrics.step),
                           epoch == metrics.values.end() ? std::nullopt : std::optional(epoch->second)),
                  found->second};
}

// The metric in any other form that programs print (cli/run/facts/printed_metrics.h).
std::optional<Reported> find_printed(std::string_view line, const Objective& objective) {
  const std::optional<PrintedMetrics> printed = read_printed_metrics(line);
  if (!printed) return std::nullopt;
  const auto found = printed->values.find(replaced(lower_case(objective.metric), {{' ', "_"}}));
  if (found == printed->values.end()) return std::nullopt;
  return Reported{place_of(objective.position, printed->step, printed->epoch), found->second};
}

// Whether the line contains the name as a separate word, and digits somewhere after the name.
bool names_metric(std::string_view line, const std::string& metric) {
  const auto is_part_of_word = [&](std::size_t i) {
    const char c = i < line.size() ? line[i] : ' ';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t at = line.find(metric); at != std::string_view::npos; at = line.find(metric, at + 1)) {
    const std::size_t end = at + metric.size();
    const bool is_whole = (at == 0 || !is_part_of_word(at - 1)) && !is_part_of_word(end);
    if (is_whole && line.find_first_of("0123456789", end) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

MetricFinder::MetricFinder(const Objective& objective) : objective_(objective) {
  if (objective.regex.empty()) return;
  if (const std::string why = why_no_regex(objective.regex); !why.empty())
    throw Error(ExitCode::usage, printable("regex of the objective " + why));
  pattern_.emplace(objective.regex);
}

std::optional<Reported> MetricFinder::find(std::string_view line) const {
  if (line.size() > longest_report) return std::nullopt;
  const std::string shown = program_line(trim(line), Colors::removed);
  line = trim(shown);
  if (pattern_) {
    const std::optional<std::string> text = pattern_->first_group_in(line);
    const std::optional<double> value = text ? number_beside_signs(trim(*text)) : std::nullopt;
    return value ? std::optional(Reported{std::nullopt, *value}) : std::nullopt;
  }
  if (line.starts_with('{')) {
    if (const std::optional<Reported> found = find_in_json(line, objective_)) return found;
  }
  if (const std::optional<Metrics> metrics = parse_metrics(line)) {
    if (const std::optional<Reported> found = find_in_metrics(*metrics, objective_)) return found;
  }
  if (!line.starts_with('{')) {
    if (const std::optional<Reported> found = find_in_words(line, objective_)) return found;
  }
  return find_printed(line, objective_);
}

std::optional<std::string> MetricFinder::near_miss(std::string_view line) const {
  if (line.size() > longest_report || find(line)) return std::nullopt;
  const std::string shown = program_line(trim(line), Colors::removed);
  line = trim(shown);
  const auto quoted = [](std::string_view text) {
    const bool whole = text.size() <= longest_quote;
    return "'" + std::string(cut(text, longest_quote)) + (whole ? "'" : "...'");
  };
  if (pattern_) {
    const std::optional<std::string> text = pattern_->first_group_in(line);
    if (!text) return std::nullopt;
    return "the regex found " + quoted(trim(*text)) + ", which is not a number";
  }
  if (!names_metric(line, objective_.metric)) return std::nullopt;
  return fmt::format("the nearest line is {}; print {}=VALUE, or give objective.regex", quoted(line),
                     objective_.metric);
}

}  // namespace mlk::sweeps
