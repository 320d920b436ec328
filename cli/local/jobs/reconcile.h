// What the Job controller does next, decided from a Job and its pods alone. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/util/time.h"

namespace mlk::local {

inline constexpr char tracking_finalizer[] = "batch.kubernetes.io/job-tracking";
inline constexpr char index_annotation[] = "batch.kubernetes.io/job-completion-index";

struct NewPod {
  int index;
  int failures;  // of this index so far, counted ones
  int ignored;   // and those that a rule ignored
};

struct JobEvent {
  std::string type, reason, message;
};

struct JobActions {
  nlohmann::json status;             // of the Job, as it is to be from now on
  std::vector<std::string> release;  // names of pods that no longer need to be kept: they are counted
  std::vector<std::string> remove;   // names of pods to delete
  std::vector<NewPod> create;
  std::vector<JobEvent> events;
  std::optional<Time> again;  // look again at this time, when nothing changes before
};

// The caller carries out the actions in the order of the members above, each durable before the next; then a
// crash between any two of them loses and doubles nothing: a finished pod is listed in
// status.uncountedTerminatedPods first, loses its finalizer then, and is added to the numbers last. `pods`:
// all of the Job; those that have succeeded and are counted matter only without backoffLimitPerIndex or with
// a successPolicy.
JobActions reconcile(const nlohmann::json& job, const std::vector<const nlohmann::json*>& pods, Time now);

// A pod of the Job as the controller creates it; its name is <job>-<index>-<suffix>.
nlohmann::json pod_of(const nlohmann::json& job, const NewPod& pod, const std::string& suffix);

bool is_finished(const nlohmann::json& job);  // condition Complete or Failed

}  // namespace mlk::local
