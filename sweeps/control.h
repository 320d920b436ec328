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

// Of a driven sweep: whoever drives it starts no more trials, and it is stopped when those that run have
// ended. resume_sweep() takes it back. Throws ApiError.
void drain_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep);

// Ends the run of a trial that cannot start: the trial has failed, with that reason. Throws ApiError.
void fail_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason);

// Whether the run with this owner was stopped, and not ended for good.
bool goes_on_later(const nlohmann::json& owner);

// Lets the run of a single trial go on that stop_trial() has stopped without a reason. Throws ApiError.
void resume_trial(kube::Client& client, const std::string& name_space, const RunObjects& run);

// Suspends the run of a trial. With a `reason` it is ended for good: resume_sweep() leaves it as it is.
void stop_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason = "");

}  // namespace mlk::sweeps
