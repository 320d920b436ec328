// Why a rank does not run, or what is wrong beside its program. Pure; internal to run/.
#pragma once

#include "cli/run/facts/facts.h"
#include "cli/run/state/ranks.h"
#include "cli/util/time.h"

namespace mlk {

// The cause has the weight 0 if the rank and the other containers of its pod are well.
Cause cause_of(const Rank& rank, const Facts& facts, Time now);

}  // namespace mlk
