#include "cli/run/facts/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/util/number.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::size_t most_keys = 64;

// Whether the text may be shown and stored unchanged.
bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= longest_metrics_word &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// Returns the position after "mlk" at which key=value follows; npos if there is none. "/opt/mlk",
// "my-mlk" and "mlk submit" do not match.
std::size_t start_of_fields(std::string_view line) {
  constexpr std::string_view name = "mlk ";
  const auto belongs_to_a_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./").find(c) != std::string_view::npos ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  for (std::size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    if (at > 0 && belongs_to_a_word(line[at - 1])) continue;
    const std::size_t first = line.find_first_not_of(' ', at + name.size());
    if (first == std::string_view::npos) continue;
    const std::size_t equals = line.substr(first, line.find(' ', first) - first).find('=');
    if (equals != std::string_view::npos && equals > 0) return first;
  }
  return std::string_view::npos;
}

std::optional<std::int64_t> step_in(const std::string& text) {
  const std::optional<double> value = number_of_word(text);
  if (!value || !std::isfinite(*value) || *value < 0 || *value >= most_steps) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

// A value without the closing quotes and brackets that a logger has added.
std::string_view without_closing(std::string_view text) {
  const std::size_t last = text.find_last_not_of("\"'`,;)]}");
  const std::string_view inner = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return number_of_word(inner) ? inner : text;
}

}  // namespace

std::optional<Metrics> parse_metrics(std::string_view line) {
  if (line.size() > longest_metrics_line || line.find("mlk") == std::string_view::npos) return std::nullopt;
  const bool is_styled = line.find_first_of("\x1b\b\r") != std::string_view::npos;
  const std::string shown = is_styled ? program_line(line, Colors::removed) : std::string(line);
  const std::size_t start = start_of_fields(shown);
  if (start == std::string::npos) return std::nullopt;
  Metrics metrics;
  std::optional<std::int64_t> step, epoch;
  for (const std::string& field : split(std::string_view(shown).substr(start), ' ')) {
    const std::size_t equals = field.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = field.substr(0, equals);
    const std::string text(without_closing(std::string_view(field).substr(equals + 1)));
    if (!is_plain(key) || !is_plain(text)) continue;
    if (key == "epoch") epoch = step_in(text);
    const std::optional<double> value = number_of_word(text);
    if (key == "step") {
      if (const std::optional<std::int64_t> read = step_in(text)) step = read;
    } else if (metrics.values.size() + metrics.words.size() == most_keys) {
      continue;
    } else if (value) {
      metrics.values[key] = *value;
    } else {
      metrics.words[key] = text;
    }
  }
  if (!step) step = epoch;
  if (!step) return std::nullopt;
  metrics.step = *step;
  return metrics;
}

nlohmann::json metric_to_json(double value) {
  if (!std::isfinite(value)) return word_of_number(value);
  const bool whole = value == std::floor(value) && std::abs(value) < most_steps;
  return whole ? nlohmann::json(static_cast<long long>(value)) : nlohmann::json(value);
}

std::optional<double> metric_number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? number_of_word(value.get_ref<const std::string&>()) : std::nullopt;
}

std::optional<std::pair<std::string, double>> leading_metric(const nlohmann::json& metrics) {
  // From the least telling to the most telling one.
  enum Rank { of_schedule, other, is_score, is_accuracy, is_loss, is_the_loss };
  const auto rank_of = [](const std::string& name) {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (name == "loss") return is_the_loss;
    if (has("loss")) return is_loss;
    if (has("acc")) return is_accuracy;
    if (has("score") || has("auc") || has("reward") || has("error")) return is_score;
    for (const char* part : {"lr", "learning_rate", "time", "norm", "_ms", "_s", "mem", "rank", "momentum"}) {
      if (has(part)) return of_schedule;
    }
    return other;
  };
  std::optional<std::pair<std::string, double>> out;
  if (!metrics.is_object()) return out;
  for (const auto& [name, value] : metrics.items()) {
    const std::optional<double> number = metric_number(value);
    if (number && (!out || rank_of(name) > rank_of(out->first))) out = {name, *number};
  }
  return out;
}

nlohmann::json to_result(const Metrics& metrics) {
  // In a result, these keys stand beside the object `metrics` and not in it.
  static const std::set<std::string> beside{"epoch", "checkpoint", "steps", "unsaved"};
  nlohmann::json result = {{"schema", 1}, {"step", metrics.step}, {"metrics", nlohmann::json::object()}};
  for (const auto& [key, value] : metrics.values) {
    (beside.count(key) ? result[key] : result["metrics"][key]) = metric_to_json(value);
  }
  for (const auto& [key, word] : metrics.words) result["metrics"][key] = word;
  return result;
}

}  // namespace mlk
