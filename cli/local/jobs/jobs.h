// The Job controller: carries out what reconcile() decides.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

// One thread calls it. Returns when it is to be called again at the latest, when nothing changes before.
std::optional<Time> step_jobs(Store& store, Time now);

}  // namespace mlk::local
