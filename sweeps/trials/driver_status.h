// Finds out who drives a sweep. A driver in the cluster has a Job. A command that drives a sweep is visible
// only in the Lease of the sweep. Pure.
#pragma once

#include <string>

#include "cli/util/time.h"
#include "sweeps/objects/objects.h"

namespace mlk::sweeps {

struct DriverStatus {
  bool goes_on = false;  // the Job has not ended: the driver runs, or the cluster will start it
  bool runs = false;
  std::string what;  // one line: "runs in the cluster", "failed: ..."; empty if the sweep has no driver
  std::string gone;  // one line if the Lease shows that nobody drives the sweep, otherwise empty
};

DriverStatus observe_driver(const SweepObjects& objects, Time now);

}  // namespace mlk::sweeps
