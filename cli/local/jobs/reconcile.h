// Decides what the Job controller does next, from a Job, its pods and the time. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/jobs/new_pod.h"
#include "cli/util/time.h"

namespace mlk::local {

struct JobEvent {
  std::string type, reason, message;
};

struct JobActions {
  nlohmann::json status;             // the new status of the Job
  std::vector<std::string> release;  // names of pods that lose their finalizer
  std::vector<std::string> remove;   // names of pods to delete
  std::vector<NewPod> create;
  std::vector<JobEvent> events;
  std::optional<Time> again;  // sync again at this time, even if nothing changes before
};

// The caller applies the actions in the order of the members above, and makes each durable before the next.
// Then a crash between two actions neither loses a pod nor counts it twice: a finished pod is first listed in
// status.uncountedTerminatedPods, then loses its finalizer, and is added to the counts last. `pods`: all pods
// of the Job. Pods that have succeeded and are counted may be left out if the Job has backoffLimitPerIndex
// and no successPolicy.
JobActions reconcile(const nlohmann::json& job, const std::vector<const nlohmann::json*>& pods, Time now);

bool is_finished(const nlohmann::json& job);  // condition Complete or Failed

}  // namespace mlk::local
