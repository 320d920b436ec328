// The Job controller: applies the decisions of reconcile().
#pragma once

#include <optional>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

// Call it from one thread only. Returns the time at which the next call is necessary even if nothing changes;
// nullopt if only a change makes another call necessary.
std::optional<Time> step_jobs(Store& store, Time now);

}  // namespace mlk::local
