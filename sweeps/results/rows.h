// Lists of runs. Each sweep is one row, which shows the same state as `mlk status` and `mlk wait`.
#pragma once

#include <string>
#include <vector>

#include "cli/run/read/find.h"
#include "sweeps/trials/observe.h"
#include "sweeps/trials/sweep_row.h"

namespace mlk::sweeps {

// Copies phase, reason and counts from the sweep's status to its row. The steps of such a row are trials.
// Pure.
RunStatus with_status(RunStatus row, const SweepStatus& status);

// Like list_runs(), but reads sweeps with their results, several in parallel. If a sweep cannot be read,
// makes its row from its Jobs alone (row_of_sweep()).
std::vector<RunStatus> list_runs_and_sweeps(kube::Client& client, const std::string& name_space, Time now,
                                            const RunFilter& filter);

}  // namespace mlk::sweeps
