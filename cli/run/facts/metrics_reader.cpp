#include "cli/run/facts/metrics_reader.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "cli/run/facts/last_words.h"
#include "cli/run/facts/printed_metrics.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::size_t most_shapes = 256;

// nullopt if the place is no step.
std::optional<Metrics> metrics_of(PrintedMetrics printed) {
  const double place = printed.step ? *printed.step : printed.epoch.value_or(-1);
  if (!std::isfinite(place) || place < 0 || place >= most_steps || printed.values.empty())
    return std::nullopt;
  Metrics out{.step = static_cast<long>(place), .values = std::move(printed.values), .words = {}};
  if (printed.epoch) out.values["epoch"] = *printed.epoch;
  return out;
}

}  // namespace

std::optional<Metrics> MetricsReader::read(std::string_view line) {
  if (std::optional<Metrics> metrics = parse_metrics(line)) {
    has_metrics_lines_ = true;
    return metrics;
  }
  if (has_metrics_lines_) return std::nullopt;
  std::optional<PrintedMetrics> printed = read_printed_metrics(line);
  if (!printed || !printed->has_place()) return std::nullopt;
  const bool is_known = shapes_.count(printed->shape) > 0;
  if (!is_known && shapes_.size() < most_shapes) shapes_.insert(printed->shape);
  return is_known ? metrics_of(std::move(*printed)) : std::nullopt;
}

nlohmann::json written_result(const std::string& termination_message) {
  nlohmann::json result = parse_result(termination_message);
  const std::string_view text = trim(termination_message);
  if (!result.is_null() || !text.starts_with('{') || !text.ends_with('}')) return result;
  std::optional<PrintedMetrics> printed = read_printed_metrics(replaced(std::string(text), {{'\n', " "}}));
  if (!printed || printed->values.empty()) return nullptr;
  if (printed->has_place()) {
    const std::optional<Metrics> metrics = metrics_of(std::move(*printed));
    return metrics ? to_result(*metrics) : nlohmann::json();
  }
  result = to_result({.step = 0, .values = std::move(printed->values), .words = {}});
  result.erase("step");
  return result;
}

std::optional<Metrics> last_metrics(std::string_view text) {
  MetricsReader reader;
  std::optional<Metrics> last;
  for (const std::string& line : split(program_text(text), '\n')) {
    if (std::optional<Metrics> metrics = reader.read(line)) last = std::move(metrics);
  }
  return last;
}

}  // namespace mlk
