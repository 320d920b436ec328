// Reads the metrics of a program from the lines of one log. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/facts/metrics.h"

namespace mlk {

// A line is read if it is a metrics line (parse_metrics()). Until the log has such a line, other lines are
// read, too (printed_metrics.h): lines that have a place in the training, such as a step, from the second
// line of the same shape on. The first one alone may be a message like any other.
class MetricsReader {
 public:
  // The metrics in the next line of the log; nullopt if it has none.
  std::optional<Metrics> read(std::string_view line);

 private:
  bool has_metrics_lines_ = false;
  std::set<std::string> shapes_;
};

// The metrics in the last line of the text that has metrics.
std::optional<Metrics> last_metrics(std::string_view text);

// The result that a program has written to MLK_RESULT: as the bundled runtime writes it (parse_result()), or
// any object of numbers, such as {"acc": 0.7}. The latter has no step if no number in it is one. Null for any
// other text.
nlohmann::json written_result(const std::string& termination_message);

}  // namespace mlk
