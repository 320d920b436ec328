#include "cli/views/trial_ends.h"

namespace mlk {

std::vector<const sweeps::Trial*> TrialEnds::since_last(const sweeps::SweepStatus& status, bool last) {
  std::vector<const sweeps::Trial*> ends;
  for (const sweeps::Trial& trial : status.trials) {
    const auto known = states_.find(trial.number);
    const bool is_new = known == states_.end() || known->second != trial.state;
    const bool ended = looked_ && is_new && sweeps::has_ended(trial.state);
    const bool waits_for_verdict =
        trial.state == sweeps::TrialState::succeeded && status.record.objective && !trial.objective;
    if (ended && waits_for_verdict && !last) continue;
    states_[trial.number] = trial.state;
    if (ended) ends.push_back(&trial);
  }
  looked_ = true;
  return ends;
}

}  // namespace mlk
