// Completes the state of a run with its record. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/state/status.h"

namespace mlk {

// Adds to `status` the facts that only an earlier watcher's record still has: facts about pods of a stopped
// run, and about lost pods that were deleted.
void fill_from(const RunStatus& recorded, RunStatus& status);

// The record was written when the end of the run was decided. Servers end after the workers. So for ranks
// that had not ended by then, the pods and Jobs have newer states.
void use_newer_ranks(std::vector<RankStatus>& recorded, const std::vector<RankStatus>& seen);

// "step 3000" if the result names a checkpoint; else empty.
std::string checkpoint_in(const nlohmann::json& result);

}  // namespace mlk
