// Decides the next actions of a sweep's driver. Pure: the same trials give the same decisions in every
// driver.
#pragma once

#include <optional>
#include <vector>

#include "sweeps/search/spec.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

struct NextStep {
  std::vector<Point> start;      // the points of the trials to start
  std::vector<Decision> judged;  // trials to promote, to pause and to stop
  bool ended = false;            // no trial runs or waits, and no trial is left to start
  bool hopeless = false;         // too many trials have failed: the driver has to stop the running trials
};

// `points`: the points of a search that knows them in advance, in the order of the search; ignored for tpe.
// `trials`: all existing trials, ascending by number. The result starts and resumes only so many trials that
// at most spec.parallel trials run at a time.
NextStep decide(const Spec& spec, const std::vector<Point>& points, const std::vector<Trial>& trials,
                int max_failures);

// The next step while the sweep is being drained: the driver starts no trial, and resumes no paused trial.
NextStep without_starts(NextStep next, const std::vector<Trial>& trials);

// The next point of search tpe after these trials; nullopt if the space has no more points.
std::optional<Point> suggest(const Spec& spec, const std::vector<Trial>& trials);

}  // namespace mlk::sweeps
