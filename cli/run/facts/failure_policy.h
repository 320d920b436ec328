// Evaluates a Job's podFailurePolicy for the end of a pod. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

enum class PolicyAction { none, ignore, count, fail_index, fail_job };

// The action of the first rule that matches, as the Job controller finds it. A rule compares the exit codes
// of all containers, also of containers before main, unless the rule names a container. Exit code 0 never
// matches. `pod`: a pod that has failed or whose program has failed.
PolicyAction policy_action(const nlohmann::json& job, const nlohmann::json& pod);

}  // namespace mlk
