// How the learning rate changes over a run: a pure function of the update.
#pragma once

#include <cstdint>

#include "runtime/launch/config.h"

namespace mlk::rt {

// The factor, in [0, 1], by which optimizer.lr is multiplied for the update that comes after `step` others of
// a run of `steps`. It grows by equal parts over the first `warmup` updates and is 1 at the next; from there
// the schedule takes its course over what is left of the run, and stays where it ends. The same bits on every
// processor.
double schedule_factor(const ScheduleConfig& schedule, std::uint64_t steps, std::uint64_t step);

}  // namespace mlk::rt
