// How much each parameter of a sweep matters to the objective: functional analysis of variance (fANOVA) over
// a random forest. Hutter, Hoos, Leyton-Brown: An Efficient Approach for Assessing Hyperparameter Importance
// (ICML 2014). Pure: the same trials give the same numbers, on every machine.
//
// The forest predicts the objective over the whole space. The variance of the prediction is a sum: the part
// that each parameter explains alone, the part that pairs explain in addition, and so on. All regions of the
// space have the same weight in the variance, even if the search has tried some regions more often. If a
// parameter is absent because its conditions do not hold, a random value of its range replaces it. The
// objective does not depend on this value, and the forest learns this independence.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sweeps/space/objective.h"
#include "sweeps/space/space.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

struct Effect {
  std::string path;
  std::string with;  // the other parameter of an interaction; empty for the effect of one parameter alone
  double share = 0;  // of the variance, 0 to 1; the shares of all effects add up to 1 at most
};

struct Importance {
  std::vector<Effect> effects;  // of all parameters and of pairs of the most important ones; largest first
  std::size_t trials = 0;       // the number of trials that the computation used
  double fit =
      0;  // R^2 of the forest on trials that its trees have not seen; at 0 or below, the forest is useless
  std::string reason;  // why there are no effects; empty if there are effects
};

inline constexpr std::size_t fewest_trials = 12;

// Uses only trials that succeeded, since the value of a trial that was stopped early comes from an earlier
// step. Clips outliers on the worse side, such as those of diverged trainings, to the third quartile + 3
// interquartile ranges. Uses at most 1000 of the trials, evenly chosen, so that the computation takes some
// seconds at most.
Importance importance(const Space& space, const std::vector<Trial>& trials, const Objective& objective);

}  // namespace mlk::sweeps
