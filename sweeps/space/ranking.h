// Ranks the trials of a sweep. Pure.
#pragma once

#include <vector>

#include "sweeps/space/objective.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

// Failed trials and trials without a finite objective have no rank.
bool has_rank(const Trial& trial);

// Whether `a` comes before `b` in the order from the best trial to the worst. Trials without a rank come
// last. If trials are equal, the trial with the lower number comes first.
bool ranks_before(const Trial& a, const Trial& b, const Objective& objective);

// The best trial. nullptr if no trial has a rank. Points into `trials`.
const Trial* best(const std::vector<Trial>& trials, const Objective& objective);

}  // namespace mlk::sweeps
