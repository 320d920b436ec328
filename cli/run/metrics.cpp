#include "cli/run/metrics.h"

#include <cmath>
#include <cstdlib>

#include "cli/util/text.h"

namespace mlk {

std::optional<Metrics> parse_metrics(std::string_view line) {
  constexpr std::size_t longest = 4096;
  if (!line.starts_with("mlk ") || line.size() > longest) return std::nullopt;
  Metrics metrics;
  bool has_step = false;
  for (const std::string& field : split(line.substr(4), ' ')) {
    const std::size_t equals = field.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string key = field.substr(0, equals), text = field.substr(equals + 1);
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') continue;  // a bare word
    if (key != "step") {
      metrics.values[key] = value;
    } else if (std::isfinite(value) && value >= 0 && value < 1e15) {
      metrics.step = static_cast<long>(value);
      has_step = true;
    }
  }
  if (!has_step) return std::nullopt;
  return metrics;
}

}  // namespace mlk
