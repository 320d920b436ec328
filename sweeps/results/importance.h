// How much each parameter of a sweep matters to the objective: functional analysis of variance (fANOVA) over
// a random forest. Hutter, Hoos, Leyton-Brown: An Efficient Approach for Assessing Hyperparameter Importance
// (ICML 2014). Pure: the same trials give the same numbers, on every machine.
//
// The forest predicts the objective over the whole space. Its variance there is the sum of what each
// parameter explains alone, what pairs explain beyond that, and so on. The mean over the space counts all of
// it alike, whatever the search has tried more often. Where a parameter is absent, because its conditions do
// not hold, a random value of its range stands in: the objective does not depend on it there, and the forest
// learns just that.
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
  std::string with;  // the other parameter of an interaction of two; empty: the parameter alone
  double share = 0;  // of the variance, 0 to 1; those of all effects add up to 1 at most
};

struct Importance {
  std::vector<Effect>
      effects;             // every parameter; then interactions of the most important ones; largest first
  std::size_t trials = 0;  // from how many it was computed
  double fit =
      0;  // R^2 of the forest on trials that its trees have not seen; at 0 and below it has learned nothing
  std::string reason;  // why there are no effects; empty when there are
};

inline constexpr std::size_t fewest_trials = 12;

// Uses the trials that succeeded: one that was stopped early has the value of an earlier step. Far values on
// the worse side, from diverged trainings, count as the upper end of the others (third quartile + 3
// interquartile ranges). Uses at most 1000 of the trials, evenly chosen: takes some seconds at most.
Importance importance(const Space& space, const std::vector<Trial>& trials, const Objective& objective);

}  // namespace mlk::sweeps
