// What a run's record adds to what its objects still show. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/state/status.h"

namespace mlk {

// Fills in from an earlier watcher's record what no longer exists: pods of a stopped run, lost pods that were
// deleted.
void fill_from(const RunStatus& recorded, RunStatus& status);

// The record was written when the end of the run was decided. Servers end after the workers: for ranks that
// had not ended by then, the pods and Jobs are newer.
void use_newer_ranks(std::vector<RankStatus>& recorded, const std::vector<RankStatus>& seen);

// "step 3000", of a result that names a checkpoint; empty if it names none.
std::string checkpoint_in(const nlohmann::json& result);

}  // namespace mlk
