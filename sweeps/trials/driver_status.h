// Finds out who drives a sweep: a driver in the cluster, which has a Job, or a command, which only the Lease
// shows. Pure.
#pragma once

#include <string>

#include "cli/util/time.h"
#include "sweeps/trials/objects.h"

namespace mlk::sweeps {

struct DriverStatus {
  bool goes_on = false;  // its Job has not ended: the driver runs, or will be started
  bool runs = false;
  std::string what;  // one line: "runs in the cluster", "failed: ..."; empty if the sweep has none
  std::string gone;  // one line, if the Lease shows that nobody drives the sweep
};

DriverStatus observe_driver(const SweepObjects& objects, Time now);

}  // namespace mlk::sweeps
