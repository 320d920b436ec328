// Whose doing a failure is when somebody has deleted the Job. Pure.
//
// A Job that is deleted in the foreground outlives its pods. Their programs get SIGTERM and answer it with
// any code, and some fail before it is their turn, since their peers are gone. The Job counts all of that,
// and says that it has failed. But nobody's program has: the run ends because its Job is gone (absence.h).
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// When the object was told to go; nothing if it was not. A pod's time of deletion is the end of its grace.
std::optional<Time> deletion_of(const nlohmann::json& object);

// Whether a failure, of a pod or of the Job itself, came with the deletion of the Job. The times of the
// cluster are whole seconds: in one second the deletion comes first, as most programs answer SIGTERM at once.
// A Job that has no time to live after its end is the exception: its end in that second is why it goes.
// A failure without a time was not seen before the deletion either.
bool came_with_deletion(const std::optional<Time>& failed, const nlohmann::json& job);

}  // namespace mlk
