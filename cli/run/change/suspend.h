// Suspends and resumes the Jobs of runs, and sets their marks: annotations::stopped on the owner records the
// stop, and annotations::suspended is set on each Job.
//
// mlk sets the mark of the owner before it suspends the first Job, and removes this mark after it has resumed
// the last Job. So if a stop or a resume was cut off at any point, the same command completes it later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/facts/run_objects.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// The metadata.generation of each Job of a run, by the Job's name, as suspend_run() left the Job.
using Generations = std::map<std::string, std::int64_t>;

// Marks the owner as stopped, adds `annotations`, and suspends the Jobs. An owner that has the mark already
// keeps the time of the first stop, except if another program has resumed a Job since then. Also marks Jobs
// that another program has suspended, since that program may resume them. If the server refuses to suspend
// the first Job, no Job was stopped, and the owner gets its former annotations back. Throws ApiError.
Generations suspend_run(kube::Client& client, const std::string& name_space, const RunObjects& run,
                        const nlohmann::json& annotations = nlohmann::json::object());

// Resumes the Jobs, then calls unmark_stopped(). Throws ApiError.
void resume_run(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const nlohmann::json& more = nlohmann::json::object());

// Removes the stop mark of the owner with a merge patch that also holds `more`. This is the last step of
// every resume. Throws ApiError.
void unmark_stopped(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                    const nlohmann::json& more = nlohmann::json::object());

// Whether another command has resumed one of the Jobs after suspend_run() returned `generations`. Pure.
bool was_resumed(const RunObjects& run, const Generations& generations);

// Whether the owner of a run or sweep has the stop mark. Pure.
bool is_marked_stopped(const nlohmann::json& owner);

// Suspends the Jobs, or resumes them if `suspended` is false, and sets or removes their marks. Skips Jobs
// that are in this state already. Throws ApiError.
void set_suspended(kube::Client& client, const std::string& name_space,
                   const std::vector<nlohmann::json>& jobs, bool suspended);

// Suspends those Jobs that would continue after the end of their run: they would restart a lost rank that is
// no longer needed, or keep servers alive that wait for this rank. Ended pods stay, with their logs. Best
// effort: returns the reason if a Job could not be suspended. Never throws for errors of the server.
std::optional<std::string> suspend_what_goes_on(kube::Client& client, const std::string& name_space,
                                                const RunObjects& run);

}  // namespace mlk
