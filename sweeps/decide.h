// What the driver of a sweep does next. Pure: the same trials give the same decisions, whoever drives.
#pragma once

#include <vector>

#include "sweeps/trial.h"

namespace mlk::sweeps {

struct NextStep {
  std::vector<Point> start;  // new trials
  bool ended = false;        // nothing is left to start, and nothing runs
  bool hopeless = false;     // more trials have failed than may: what runs is to be stopped
};

// `points`: of the search, in its order. `trials`: all that there are. At most `parallel` go on at a time,
// and more than `max_failures` failed ones end the sweep, as does a failure of all.
NextStep decide(const std::vector<Point>& points, const std::vector<Trial>& trials, int parallel,
                int max_failures);

}  // namespace mlk::sweeps
