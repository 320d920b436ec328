// The metrics lines that programs print (CONTRACT.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mlk {

struct Metrics {
  long step = 0;
  std::map<std::string, double> values;  // all keys with a number but step
};

// "mlk step=100 loss=0.2311"; nullopt for any other line.
std::optional<Metrics> parse_metrics(std::string_view line);

}  // namespace mlk
