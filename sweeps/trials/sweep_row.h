// A sweep as a row of `mlk ls`. Pure.
#pragma once

#include "cli/run/facts/facts.h"
#include "cli/run/state/status.h"

namespace mlk::sweeps {

// Reasons that occur in a row and in the complete state of a sweep.
inline constexpr char starter_was_cut_off[] = "the command that starts the sweep was cut off: type it again";
inline constexpr char drains[] =
    "no more trials are started; the sweep is stopped when its running trials have ended";

// Whether the owner is marked as stopped. False if another program has since resumed a Job whose indexes are
// trials.
bool is_stopped(const nlohmann::json& owner, const Facts& facts);

// The row of `mlk ls`, from the owner's metadata and the Jobs alone. The steps of the row are trials.
RunStatus row_of_sweep(const RunObjects& objects);
inline constexpr char mode_of_sweeps[] = "sweep";  // RunStatus::mode of this row

}  // namespace mlk::sweeps
