// Which ends of a sweep's trials are to be told, each once. Pure.
#pragma once

#include <map>
#include <vector>

#include "sweeps/trials/observe.h"

namespace mlk {

class TrialEnds {
 public:
  // Call with each look at the sweep. The trials that have ended since the last one; those that had ended
  // before the first are not told. A trial that has ended with 0 and has not told its objective yet is told
  // with its objective or its verdict (trial.h), which come with its log; or with the `last` look.
  std::vector<const sweeps::Trial*> since_last(const sweeps::SweepStatus& status, bool last = false);

 private:
  std::map<int, sweeps::TrialState> states_;
  bool looked_ = false;
};

}  // namespace mlk
