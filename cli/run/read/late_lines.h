// On a busy node the last lines of a program that has just ended may still be on their way to its log. So a
// log that lacks what is looked for is read again before that counts.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "cli/util/time.h"

namespace mlk {

// Whether the lines of a program that has ended at this time may still be on their way: for 10 s, by which
// the clocks of its node and of this machine may differ. Pure.
bool may_have_late_lines(const std::optional<Time>& ended, Time now);

// Calls `read` as long as `lacks` holds, at most five times, each time after 0.4 s. False if `deadline` came
// before that: what is lacking may still come.
bool read_late_lines(const std::function<bool()>& lacks, const std::function<void()>& read,
                     std::chrono::steady_clock::time_point deadline);

}  // namespace mlk
