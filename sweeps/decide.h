// What the driver of a sweep does next. Pure: the same trials give the same decisions, whoever drives.
#pragma once

#include <optional>
#include <vector>

#include "sweeps/spec.h"
#include "sweeps/trial.h"

namespace mlk::sweeps {

struct NextStep {
  std::vector<Point> start;      // new trials
  std::vector<Decision> judged;  // trials to promote, to pause and to stop
  bool ended = false;            // nothing is left to start, and nothing runs
  bool hopeless = false;         // more trials have failed than may: what runs is to be stopped
};

// `points`: of a search that knows them beforehand, in its order; of tpe they are not looked at. `trials`:
// all that there are, ascending by number. At most `parallel` go on at a time.
NextStep decide(const Spec& spec, const std::vector<Point>& points, const std::vector<Trial>& trials,
                int max_failures);

// The next point of search tpe after these trials; nothing when the space has no more.
std::optional<Point> suggest(const Spec& spec, const std::vector<Trial>& trials);

}  // namespace mlk::sweeps
