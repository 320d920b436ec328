// Decides whether a failure was caused by the deletion of the Job. Pure.
//
// A Job that is deleted in the foreground outlives its pods. The programs in the pods get SIGTERM and end
// with any exit code. Some programs fail before they get SIGTERM, since their peers are gone. The Job counts
// all these ends and reports that it has failed. But no program has failed by itself. The run ends because
// its Job is gone (absence.h).
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// The time at which the deletion of the object was requested; empty if no deletion was requested. The
// deletionTimestamp of a pod is the end of its grace period, so this function subtracts the period.
std::optional<Time> deletion_of(const nlohmann::json& object);

// Whether the deletion of the Job caused a failure of a pod or of the Job itself. The times of the cluster
// have no fractions of a second. If the failure and the deletion are in the same second, the deletion counts
// as earlier, since most programs end at once after SIGTERM. A Job with ttlSecondsAfterFinished 0 is the
// exception: its end in that second is the reason for its deletion. A failure without a time counts as caused
// by the deletion.
bool came_with_deletion(const std::optional<Time>& failed, const nlohmann::json& job);

}  // namespace mlk
