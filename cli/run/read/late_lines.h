// On a busy node, the last lines of a program that has just ended may still be on their way to its log. So
// mlk reads a log again before it accepts that a line is missing.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "cli/util/time.h"

namespace mlk {

struct RunStatus;

// Whether lines of a program that has ended at this time may still be on their way. True if `now` and this
// time differ by less than 10 s, since the clocks of the node and of this machine may differ. Pure.
bool may_have_late_lines(const std::optional<Time>& ended, Time now);

// Whether the logs of an ended run may still get lines that its record lacks: the result of a run that
// succeeded, or the error of a container that failed by itself. Pure.
bool may_complete_record(const RunStatus& status, Time now);

// Calls `read` as long as `lacks` returns true, at most five times, each time after 0.4 s. Returns false if
// the next call would be after `deadline`: then the missing lines may still arrive.
bool read_late_lines(const std::function<bool()>& lacks, const std::function<void()>& read,
                     std::chrono::steady_clock::time_point deadline);

}  // namespace mlk
