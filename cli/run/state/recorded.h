// Completes the state of a run with its record. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/state/status.h"

namespace mlk {

// Adds to `status` the facts that only the record still has: facts about pods of a stopped run, and about
// lost pods that were deleted.
void fill_from(const RunStatus& recorded, RunStatus& status);

// Updates in `recorded` the ranks that had not ended when the record was written: they get their newer states
// from `seen`. For example, the record is written at the end of the workers, and servers end later.
void use_newer_ranks(std::vector<RankStatus>& recorded, const std::vector<RankStatus>& seen);

// "step 3000" if the result names a checkpoint; else empty.
std::string checkpoint_in(const nlohmann::json& result);

}  // namespace mlk
