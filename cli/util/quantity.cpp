#include "cli/util/quantity.h"

#include <cmath>
#include <cstdlib>
#include <map>

#include <nlohmann/json.hpp>

namespace mlk {

std::optional<double> parse_quantity(const std::string& text) {
  static const std::map<std::string, double> units = {
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  char* end = nullptr;
  // "1E" has a unit, and "1E3" has an exponent. strtod distinguishes the two forms.
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(number)) return std::nullopt;
  const auto unit = units.find(end);
  if (unit == units.end()) return std::nullopt;
  return number * unit->second;
}

std::optional<double> quantity_of(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? parse_quantity(value.get<std::string>()) : std::nullopt;
}

}  // namespace mlk
