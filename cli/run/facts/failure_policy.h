// What a Job's podFailurePolicy says of the end of a pod. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

enum class PolicyAction { none, ignore, count, fail_index, fail_job };

// The action of the first rule that matches, as the Job controller finds it: exit codes of all containers
// count, those before main too, unless the rule names one; 0 never does. `pod`: one that has failed, or whose
// program has.
PolicyAction policy_action(const nlohmann::json& job, const nlohmann::json& pod);

}  // namespace mlk
