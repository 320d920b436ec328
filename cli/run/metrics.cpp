#include "cli/run/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::size_t most_keys = 64;

// Whether the text may be shown and stored unchanged.
bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= longest_metrics_word &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

std::optional<Metrics> parse_metrics(std::string_view line) {
  if (!line.starts_with("mlk ") || line.size() > longest_metrics_line) return std::nullopt;
  Metrics metrics;
  bool has_step = false;
  for (const std::string& field : split(line.substr(4), ' ')) {
    const std::size_t equals = field.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = field.substr(0, equals), text = field.substr(equals + 1);
    if (!is_plain(key) || !is_plain(text)) continue;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = *end == '\0';
    if (key == "step") {
      if (!is_number || !std::isfinite(value) || value < 0 || value >= most_steps) continue;
      metrics.step = static_cast<long>(value);
      has_step = true;
    } else if (metrics.values.size() + metrics.words.size() == most_keys) {
      continue;
    } else if (is_number) {
      metrics.values[key] = value;
    } else {
      metrics.words[key] = text;
    }
  }
  if (!has_step) return std::nullopt;
  return metrics;
}

nlohmann::json to_result(const Metrics& metrics) {
  // These stand beside the metrics.
  static const std::set<std::string> beside{"epoch", "checkpoint", "steps", "unsaved"};
  nlohmann::json result = {{"schema", 1}, {"step", metrics.step}, {"metrics", nlohmann::json::object()}};
  for (const auto& [key, value] : metrics.values) {
    const bool whole = std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15;
    nlohmann::json& place = beside.count(key) ? result[key] : result["metrics"][key];
    if (whole) {
      place = static_cast<long long>(value);
    } else {
      place = value;
    }
  }
  for (const auto& [key, word] : metrics.words) result["metrics"][key] = word;
  return result;
}

std::optional<Metrics> last_metrics(std::string_view text) {
  std::optional<Metrics> last;
  for (const std::string& line : split(text, '\n')) {
    if (std::optional<Metrics> metrics = parse_metrics(line)) last = std::move(metrics);
  }
  return last;
}

}  // namespace mlk
