// Ends pods that train on although their Job is gone (pods_left.h).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk::kube {
class Client;
}

namespace mlk {

struct SubmitHooks;

// Ends those pods of the run or sweep with this owner, says so, and waits until they have ended, at most two
// minutes. A Job that another command has made meanwhile keeps its pods. Without such a pod it does nothing.
// Throws Error: timed_out with the names of those that have not ended, ApiError, and what the hook
// check_interrupted throws.
void end_pods_left(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                   const SubmitHooks& hooks);

}  // namespace mlk
