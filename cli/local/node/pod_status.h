// The status of a pod, from the facts about its process. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/local/node/pod_folder.h"
#include "cli/util/time.h"

namespace mlk::local {

struct PodState {
  std::string address;
  // At most one of the next three is set.
  std::optional<std::pair<std::string, std::string>> waiting;  // reason, message
  std::optional<std::string> running_since;                    // RFC 3339
  std::optional<Exit> exit;
  std::string termination_message;
};

// Keeps the start time and the times of unchanged conditions from the old status.
nlohmann::json pod_status(const nlohmann::json& pod, const PodState& state, Time now);

// The time at which the kubelet ends the pod: activeDeadlineSeconds after its start time. nullopt if the pod
// has no deadline or has not started.
std::optional<Time> deadline_of(const nlohmann::json& pod);
inline constexpr char deadline_message[] = "Pod was active on the node longer than the specified deadline";

// The scheduler for the only node, "local", which has `free_gpus` free GPUs. Returns nullopt if the pod fits.
// Otherwise returns the message for the pod's condition PodScheduled.
std::optional<std::string> why_unschedulable(const nlohmann::json& pod, std::size_t free_gpus = 0);
nlohmann::json unschedulable_status(const nlohmann::json& pod, const std::string& why, Time now);

// The first `limit` bytes of a text from a program, as text for JSON. Bytes that are not UTF-8 become U+FFFD.
std::string clean_text(const std::string& bytes, std::size_t limit);

}  // namespace mlk::local
