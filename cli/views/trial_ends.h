// Finds the ends of trials that a command has to report. Each end is reported once. Pure.
#pragma once

#include <map>
#include <vector>

#include "sweeps/trials/observe.h"

namespace mlk {

class TrialEnds {
 public:
  // Call with each poll of the sweep. Returns the trials that have ended since the previous call. Leaves out
  // trials that had ended before the first call. If the sweep has an objective, a trial with exit code 0 is
  // returned only when its objective or its verdict (trial.h) was read from its log, or when `last` is true.
  std::vector<const sweeps::Trial*> since_last(const sweeps::SweepStatus& status, bool last = false);

 private:
  std::map<int, sweeps::TrialState> states_;
  bool looked_ = false;
};

}  // namespace mlk
