// How the learning rate changes over a run: a pure function of the update.
#pragma once

#include <cstdint>

#include "runtime/launch/config.h"

namespace mlk::rt {

// The factor, in [0, 1], by which optimizer.lr is multiplied for update `step` (counted from 0) of a run of
// `steps`. It grows linearly over the first `warmup` updates and is 1 at the next update. From there on, the
// schedule covers the rest of the run. Beyond the end of the run, the factor of the schedules "linear" and
// "cosine" no longer changes. The factor has the same bits on every processor.
double schedule_factor(const ScheduleConfig& schedule, std::uint64_t steps, std::uint64_t step);

}  // namespace mlk::rt
