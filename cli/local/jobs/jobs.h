// The Job controller: carries out what reconcile() decides.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

// For one thread. Returns the time at which it has to be called again even if nothing changes.
std::optional<Time> step_jobs(Store& store, Time now);

}  // namespace mlk::local
