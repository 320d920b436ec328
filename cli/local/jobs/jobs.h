// The Job controller: applies the decisions of reconcile().
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

// For one thread. Returns the time of the next necessary call, even if nothing changes before.
std::optional<Time> step_jobs(Store& store, Time now);

}  // namespace mlk::local
