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
