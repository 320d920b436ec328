// Pods that have not ended although their Job is not there any more. After `kubectl delete job
// --cascade=orphan` they have no owner: neither a Job nor the garbage collector ends them, and they train on
// for good. Others are being collected, and have their grace. None of them may have a second training beside
// it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/facts.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

struct SubmitHooks;

// Pure. They point into `facts`. One on a lost node is among them: nobody knows whether it runs.
std::vector<const PodFacts*> pods_left(const Facts& facts);

// The names of the Jobs that these pods have lost. Pure.
std::set<std::string> jobs_with_pods_left(const RunObjects& run);

// Ends those pods of the run or sweep with this owner, says so, and waits until they have ended, at most two
// minutes. A Job that another command has made meanwhile keeps its pods. Without such a pod it does nothing.
// Throws Error: timed_out with the names of those that have not ended, ApiError, and what the hook
// check_interrupted throws.
void end_pods_left(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                   const SubmitHooks& hooks);

}  // namespace mlk
