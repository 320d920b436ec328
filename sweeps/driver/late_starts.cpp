#include "sweeps/driver/late_starts.h"

#include <set>

namespace mlk::sweeps {

using std::chrono::steady_clock;

void LateStarts::observe(const SweepStatus& status, steady_clock::time_point now) {
  std::set<std::string> waiting;
  for (const auto& [number, why] : status.waits_for) waiting.insert(status.newest_runs.at(number));
  std::erase_if(waiting_since_, [&](const auto& wait) { return waiting.count(wait.first) == 0; });
  for (const std::string& run : waiting) waiting_since_.try_emplace(run, now);
}

bool LateStarts::contains(const std::string& run, steady_clock::time_point now) const {
  const auto since = waiting_since_.find(run);
  return timeout_.count() > 0 && since != waiting_since_.end() && now - since->second > timeout_;
}

}  // namespace mlk::sweeps
