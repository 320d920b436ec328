// Stopping a sweep, and letting it go on.
#pragma once

#include <cstdint>
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

// Whether the run with this owner was stopped, and neither paused nor ended for good.
bool goes_on_later(const nlohmann::json& owner);

// Lets the run of a single trial go on that stop_trial() has stopped without a reason. Throws ApiError.
void resume_trial(kube::Client& client, const std::string& name_space, const RunObjects& run);

// Where early stopping has put a trial; 0 when it has not. Pure.
std::int64_t rung_of(const nlohmann::json& owner, const char* annotation);

// Says how far a trial may train from now on, unless its owner has changed since it was read. Does nothing
// else: see settle_pause().
void let_train(kube::Client& client, const std::string& name_space, const RunObjects& run,
               std::int64_t until);

// Marks a trial as paused at a rung, in the same way. Its Jobs are suspended by settle_pause().
void mark_paused(kube::Client& client, const std::string& name_space, const RunObjects& run,
                 std::int64_t rung);

// Makes the Jobs of a trial what its marks say: suspended while it is paused, going on, and no more marked,
// when it may train further than where it was paused. May be cut off and repeated anywhere.
void settle_pause(kube::Client& client, const std::string& name_space, const RunObjects& run);

// Suspends the run of a trial. With a `reason` it is ended for good: resume_sweep() leaves it as it is,
// as it does with those that are paused.
void stop_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason = "");

}  // namespace mlk::sweeps
