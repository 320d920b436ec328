// Parses the metrics lines of programs (CONTRACT.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// A longer line is not a metrics line. A longer key or value in a metrics line is left out.
inline constexpr std::size_t longest_metrics_line = 4096;  // bytes
inline constexpr std::size_t longest_metrics_word = 64;    // bytes of a key or a value
inline constexpr double most_steps = 1e15;

struct Metrics {
  long step = 0;
  std::map<std::string, double> values;      // all keys with a number, except `step`
  std::map<std::string, std::string> words;  // all keys with a bare word, such as slowest=worker/1
};

// Parses "mlk step=100 loss=0.2311". Any text may precede `mlk`, such as colours or a logger's prefix. `mlk`
// must be a separate word that is followed by key=value. Without a step, the epoch is used as the step.
// nullopt for any other line. Keys and words in the result are plain ASCII.
std::optional<Metrics> parse_metrics(std::string_view line);

// A metric in a result, a record or JSON: the numbers that JSON cannot hold are written as "nan", "inf" and
// "-inf".
nlohmann::json metric_to_json(double value);
// The number in a value that metric_to_json() has made; nullopt if the value is not a number, for example a
// word.
std::optional<double> metric_number(const nlohmann::json& value);

// The metric that says most about a training, from the object `metrics` of a result: the loss, else another
// one that is called a loss, an accuracy or a score, else the first by name that is not about the speed or
// the schedule. nullopt if there is none with a number.
std::optional<std::pair<std::string, double>> leading_metric(const nlohmann::json& metrics);

// The metrics in the form of a result file (CONTRACT.md).
nlohmann::json to_result(const Metrics& metrics);

// A metrics line found in a log.
struct MetricsLine {
  Metrics metrics;
  Time time{};  // by the clock of the node
};

}  // namespace mlk
