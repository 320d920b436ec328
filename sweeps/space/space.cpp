#include "sweeps/space/space.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mlk::sweeps {

nlohmann::json normal_form(const nlohmann::json& value) {
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    const bool whole = number == std::floor(number) && std::fabs(number) <= largest_whole;
    return whole ? nlohmann::json(static_cast<std::int64_t>(number)) : value;
  }
  nlohmann::json out = value;
  if (value.is_structured()) {
    for (nlohmann::json& each : out) each = normal_form(each);
  }
  return out;
}

nlohmann::json normal_form(const Point& point) { return normal_form(nlohmann::json(point)); }

bool is_whole(Parameter::Kind kind) {
  return kind == Parameter::Kind::integer || kind == Parameter::Kind::log_integer;
}

const Place& place_of(const Parameter& parameter, const nlohmann::json& value) {
  const auto found = parameter.places.find(value);
  return found == parameter.places.end() ? parameter.place : found->second;
}

bool varies(const Parameter& parameter) {
  return parameter.kind == Parameter::Kind::choice ? parameter.values.size() > 1
                                                   : parameter.low < parameter.high;
}

nlohmann::json value_at(const Point& point, const std::string& path) {
  const auto found = point.find(path);
  return found == point.end() ? nlohmann::json() : found->second;
}

bool can_be(const Parameter& parameter, const nlohmann::json& value) {
  if (parameter.kind == Parameter::Kind::choice)
    return std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end();
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  const bool fits = !is_whole(parameter.kind) || number == std::floor(number);
  return fits && number >= parameter.low && number <= parameter.high;
}

bool holds(const std::vector<Condition>& conditions, const Point& point) {
  return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
    const auto found = point.find(condition.path);
    return found != point.end() && std::find(condition.values.begin(), condition.values.end(),
                                             found->second) != condition.values.end();
  });
}

bool is_left_out(const Space& space, const Point& point) {
  return std::any_of(space.except.begin(), space.except.end(),
                     [&](const std::vector<Condition>& conditions) { return holds(conditions, point); });
}

}  // namespace mlk::sweeps
