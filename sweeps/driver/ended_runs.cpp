#include "sweeps/driver/ended_runs.h"

#include <algorithm>

#include "cli/run/change/suspend.h"
#include "cli/run/change/write_record.h"
#include "cli/run/facts/going_on.h"

namespace mlk::sweeps {
namespace {

// How long pods of an ended trial may still run: pods of a `train:` trial end within a minute (CONTRACT.md).
constexpr std::chrono::seconds patience_with_pods{75};

}  // namespace

bool EndedRuns::is_due(const std::string& run, const RunStatus& status) const {
  return settled_.count(run) == 0 && is_final(status.phase);
}

bool EndedRuns::lack_ends_of_pods(const std::map<std::string, RunObjects>& runs,
                                  const SweepStatus& sweep) const {
  return std::any_of(sweep.runs.begin(), sweep.runs.end(), [&](const auto& run) {
    return is_due(run.first, run.second) && lacks_ends_of_pods(runs.at(run.first));
  });
}

bool EndedRuns::settle(const std::map<std::string, RunObjects>& runs, const SweepStatus& sweep,
                       const std::function<bool()>& go_on) {
  any_waits_ = false;
  for (const auto& [name, status] : sweep.runs) {
    if (!is_due(name, status)) continue;
    const RunObjects& run = runs.at(name);
    const auto now = std::chrono::steady_clock::now();
    const auto since = ended_since_.try_emplace(name, now).first->second;
    if (is_settling(run, std::chrono::system_clock::now(), now - since, patience_with_pods)) {
      any_waits_ = true;
      continue;
    }
    if (!go_on()) return false;
    write_record(client_, name_space_, run.owner, status);
    suspend_what_goes_on(client_, name_space_, run);
    settled_.insert(name);
  }
  return true;
}

}  // namespace mlk::sweeps
