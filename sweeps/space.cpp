#include "sweeps/space.h"

#include <algorithm>

namespace mlk::sweeps {

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
