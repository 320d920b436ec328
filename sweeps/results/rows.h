// Lists runs and sweeps. Each sweep is one row, with the same state as in `mlk status` and `mlk wait`.
#pragma once

#include <string>
#include <vector>

#include "cli/run/read/find.h"
#include "sweeps/trials/observe.h"
#include "sweeps/trials/sweep_row.h"

namespace mlk::sweeps {

// Copies the phase, the reason, the counts and the times of a sweep from its status to its row. The steps of
// the row are the trials of the sweep. Pure.
RunStatus with_status(RunStatus row, const SweepStatus& status);

// Like list_runs(), but also reads the results of sweeps, several sweeps in parallel. If a sweep cannot be
// read, its row shows only what its owner and its Jobs tell (row_of_sweep()).
std::vector<RunStatus> list_runs_and_sweeps(kube::Client& client, const std::string& name_space, Time now,
                                            const RunFilter& filter);

}  // namespace mlk::sweeps
