// The trials that an expression means, by all that is known of them. Pure.
#pragma once

#include <string>
#include <vector>

#include "sweeps/space.h"
#include "sweeps/trial.h"

namespace mlk::sweeps {

// `expression` is the value of --where; an empty one means all trials. Names are paths of parameters, or
// their last words, metrics, and trial, state, objective, step, tries, failure, duration (seconds). Throws
// Error{usage}, with a caret, for a mistake and for a name that no trial knows.
std::vector<Trial> select(const std::vector<Trial>& trials, const Space& space,
                          const std::string& expression);

}  // namespace mlk::sweeps
