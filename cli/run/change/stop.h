// Stops runs after a last checkpoint, and resumes stopped runs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/run/change/hooks.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// Suspends the runs, waits until their processes have ended, and writes their records, since results are lost
// with the pods. Waits at most `timeout` for every 16 runs. If a run has ended already, reports its end and
// suspends those of its Jobs that would continue. If one run has an error, the other runs are still stopped
// and recorded. At the end, the function throws the first error, and warns of the other errors. Throws
// ApiError, and Error: timed_out (the cluster still stops the run); not_found if a run was deleted meanwhile;
// failure if a run was resumed meanwhile, if its results could not be recorded, or if Jobs of an ended run
// could not be suspended. Throws Error{interrupted} at once.
void stop_runs(kube::Client& client, const std::vector<std::string>& runs, std::chrono::seconds timeout,
               const ChangeHooks& hooks);

// Resumes a stopped run. If the run is not stopped, only reports that. Throws Error{failure} for a run that
// has ended, and ApiError.
void resume_stopped_run(kube::Client& client, const std::string& run, const ChangeHooks& hooks);

}  // namespace mlk
