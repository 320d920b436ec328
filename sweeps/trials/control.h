// Stops, drains and resumes sweeps, and stops and pauses their trials.
#pragma once

#include <cstdint>
#include <string>

#include "cli/run/state/status.h"
#include "sweeps/objects/objects.h"
#include "sweeps/objects/record.h"

namespace mlk::sweeps {

// stop_sweep() marks the owner of the sweep before it suspends the first Job, and resume_sweep() removes the
// mark after it has resumed the last Job. If one of these functions is cut off, repeating it completes its
// work. Both functions throw ApiError.
void stop_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects);
void resume_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects);

// Drains a driven sweep: its driver starts no more trials, and the sweep is stopped when its running trials
// have ended. resume_sweep() undoes the drain. Throws ApiError.
void drain_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep);

// Patches the owner of a sweep or of a trial. Returns false and changes nothing if the owner has changed
// since it was read. Throws ApiError.
bool patch_as_read(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                   nlohmann::json patch);

// Writes the record and the phase of the sweep into its owner. `phase`: null if the sweep continues. Does
// nothing if the owner has changed since it was read. In this case the driver reads the newer owner in its
// next round. Throws ApiError.
void write_phase(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                 const Record& record, const nlohmann::json& phase);

// Ends the run of a trial that cannot start. The trial then counts as failed with this reason. Throws
// ApiError.
void fail_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason);

// Whether the run with this owner was stopped, but neither paused nor ended for good. resume_sweep() resumes
// only such runs.
bool goes_on_later(const nlohmann::json& owner);

// The rung that early stopping has written into this annotation of a trial's owner. 0 without the annotation.
// Pure.
std::int64_t rung_of(const nlohmann::json& owner, const char* annotation);

// Lets a trial train up to `until`, a step or an epoch: writes this limit into the trial's owner. Does
// nothing if the owner has changed since it was read. Does not change the Jobs: apply_pause() resumes them.
void let_train(kube::Client& client, const std::string& name_space, const RunObjects& run,
               std::int64_t until);

// Marks a trial as paused at a rung. Does nothing if the owner of the trial has changed since it was read.
// Does not change the Jobs: apply_pause() suspends them.
void mark_paused(kube::Client& client, const std::string& name_space, const RunObjects& run,
                 std::int64_t rung);

// Updates the Jobs of a trial to match the trial's marks. Suspends the Jobs while the trial is paused. If the
// trial may train beyond the rung of its pause, resumes the Jobs and removes the mark of the pause. If this
// function is cut off at any point, repeating it completes its work.
void apply_pause(kube::Client& client, const std::string& name_space, const RunObjects& run);

// Suspends the run of a trial. With a `reason`, the run has ended for good, and resume_sweep() does not
// resume it.
void stop_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason = "");

}  // namespace mlk::sweeps
