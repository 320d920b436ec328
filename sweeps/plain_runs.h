// Runs that were submitted one by one, as the trials of a sweep: for the same tables. Pure.
#pragma once

#include <vector>

#include "cli/run/status.h"
#include "sweeps/objective.h"
#include "sweeps/trial.h"

namespace mlk::sweeps {

// What is best among runs of which nobody has said it: the largest accuracy if one of them has told any, else
// the smallest loss.
Objective usual_objective(const std::vector<RunStatus>& runs);

// The values of the experiment's file with all defaults, by their paths: {"train.optimizer.lr": 0.1, ...}.
Point parameters_of(const RunStatus& run);

// The oldest is number 0. Parameters are the values of the experiments in which the runs differ, and `run`,
// their names. `runs` have their experiments (RunFilter::configured).
std::vector<Trial> trials_of(std::vector<RunStatus> runs, const Objective& objective);

}  // namespace mlk::sweeps
