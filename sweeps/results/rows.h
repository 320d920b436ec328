// Lists of runs in which each sweep is one row, as `mlk status` and `mlk wait` see it.
#pragma once

#include <string>
#include <vector>

#include "cli/run/read/find.h"
#include "sweeps/trials/observe.h"
#include "sweeps/trials/sweep_row.h"

namespace mlk::sweeps {

// Phase, reason and counts of a sweep as those of a row; its steps are trials. Pure.
RunStatus with_status(RunStatus row, const SweepStatus& status);

// As list_runs(); sweeps are read with their results, several at once. One that cannot be read has the row
// that its Jobs alone give (row_of_sweep()).
std::vector<RunStatus> list_runs_and_sweeps(kube::Client& client, const std::string& name_space, Time now,
                                            const RunFilter& filter);

}  // namespace mlk::sweeps
