// Turns runs that were submitted separately into trials, so that the tables of sweeps can show them. Pure.
#pragma once

#include <vector>

#include "cli/run/state/status.h"
#include "sweeps/space/objective.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

// The default objective: the largest accuracy if one of the runs has reported an accuracy, else the smallest
// loss.
Objective usual_objective(const std::vector<RunStatus>& runs);

// The values of the run's experiment, with all defaults, by their paths: {"train.optimizer.lr": 0.1, ...}.
// Leaves out name, tags and note.
Point parameters_of(const RunStatus& run);

// Each run becomes a trial; the oldest run is number 0. The parameters are the values in which the
// experiments of the runs differ, and one more: `run`, the name of the run. RunStatus::experiment of each run
// must be filled in (RunFilter::configured).
std::vector<Trial> trials_of(std::vector<RunStatus> runs, const Objective& objective);

}  // namespace mlk::sweeps
