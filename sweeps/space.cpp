#include "sweeps/space.h"

#include <algorithm>
#include <cmath>

namespace mlk::sweeps {

bool can_be(const Parameter& parameter, const nlohmann::json& value) {
  if (parameter.kind == Parameter::Kind::choice)
    return std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end();
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  const bool fits = parameter.kind != Parameter::Kind::integer || number == std::floor(number);
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
