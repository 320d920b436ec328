// Stopping a sweep, and letting it go on.
#pragma once

#include <string>

#include "cli/run/status.h"
#include "sweeps/registry.h"

namespace mlk::sweeps {

// The mark on the owner stands from before the first Job is suspended until after the last one goes on:
// whichever of the two is cut off, saying it again does the rest. Both throw ApiError.
void stop_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects);
void resume_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects);

// Suspends the run of a trial. With a `reason` it is ended for good: resume_sweep() leaves it as it is.
void stop_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason = "");

}  // namespace mlk::sweeps
