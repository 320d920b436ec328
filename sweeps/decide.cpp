#include "sweeps/decide.h"

#include <algorithm>
#include <set>

namespace mlk::sweeps {

NextStep decide(const std::vector<Point>& points, const std::vector<Trial>& trials, int parallel,
                int max_failures) {
  NextStep out;
  std::set<std::string> known;
  int going_on = 0, failed = 0;
  for (const Trial& trial : trials) {
    known.insert(trial.hash);
    if (!has_ended(trial.state)) ++going_on;
    if (trial.state == TrialState::failed) ++failed;
  }
  out.hopeless = failed > max_failures;
  if (!out.hopeless) {
    for (const Point& point : points) {
      if (going_on + static_cast<int>(out.start.size()) >= parallel) break;
      if (known.insert(hash_of(point)).second) out.start.push_back(point);
    }
  }
  out.ended = going_on == 0 && out.start.empty();
  return out;
}

}  // namespace mlk::sweeps
