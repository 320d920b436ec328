#include "sweeps/space/ranking.h"

#include <algorithm>
#include <cmath>

namespace mlk::sweeps {

bool has_rank(const Trial& trial) {
  return trial.state != TrialState::failed && trial.objective && std::isfinite(*trial.objective);
}

bool ranks_before(const Trial& a, const Trial& b, const Objective& objective) {
  if (has_rank(a) != has_rank(b)) return has_rank(a);
  if (has_rank(a) && *a.objective != *b.objective) return is_better(objective, *a.objective, *b.objective);
  return a.number < b.number;
}

const Trial* best(const std::vector<Trial>& trials, const Objective& objective) {
  const auto first = std::ranges::min_element(
      trials, [&](const Trial& a, const Trial& b) { return ranks_before(a, b, objective); });
  return first != trials.end() && has_rank(*first) ? &*first : nullptr;
}

}  // namespace mlk::sweeps
