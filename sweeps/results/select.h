// Selects trials and runs by an expression over everything that is known of them. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/run/state/status.h"
#include "sweeps/space/space.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

// `expression` is the value of --where; an empty one selects all trials. Names are paths of parameters or
// their last words, metrics, and trial, state, objective, step, tries, failure, duration (seconds, or text
// such as 10m). A metric that is named as a parameter is metrics.NAME, and the parameter parameters.NAME or
// its path. Throws Error{usage}, with a caret, for a mistake, for a name that no trial has, and for one that
// is both.
std::vector<Trial> select(const std::vector<Trial>& trials, const Space& space,
                          const std::string& expression);

// The same for runs. Names are values of the experiment (RunFilter::configured), metrics, and run, name,
// mode, phase (also: state), step, restarts, why, age and duration (seconds, or text such as 2h). `tags` is
// their list; `tags.team` of the tag team=vision is vision, of a tag without a value true. A value of the
// experiment or a metric is hidden by one of these names.
std::vector<RunStatus> select_runs(const std::vector<RunStatus>& runs, Time now,
                                   const std::string& expression);

}  // namespace mlk::sweeps
