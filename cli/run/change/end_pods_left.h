// Ends pods that continue to train although their Job is gone (pods_left.h).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk::kube {
class Client;
}

namespace mlk {

struct SubmitHooks;

// Ends those pods of the owner's run or sweep that continue without their Job. Reports the pods to the user,
// and waits at most two minutes until they have ended. If another command makes the Job again meanwhile, the
// pods of the new Job stay. If there is no such pod, the function does nothing. Throws ApiError, the
// exceptions of the hook check_interrupted, and Error{timed_out}, which names the pods that have not ended.
void end_pods_left(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                   const SubmitHooks& hooks);

}  // namespace mlk
