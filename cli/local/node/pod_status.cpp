#include "cli/local/node/pod_status.h"

#include "cli/local/node/gpus.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/quantity.h"

namespace mlk::local {

using nlohmann::json;

namespace {

// Keeps the old condition if its status does not change; otherwise the condition gets the present time.
void put_condition(json& conditions, const json& old_conditions, const std::string& type, bool value,
                   const std::string& reason, const std::string& message, Time now) {
  const std::string status = value ? "True" : "False";
  json condition = {{"type", type},
                    {"status", status},
                    {"lastProbeTime", nullptr},
                    {"lastTransitionTime", format_time(now)}};
  if (!reason.empty()) condition["reason"] = reason;
  if (!message.empty()) condition["message"] = message;
  for (const json& old : old_conditions) {
    if (old.value("type", "") == type && old.value("status", "") == status) {
      condition["lastTransitionTime"] = old.at("lastTransitionTime");
    }
  }
  conditions.push_back(condition);
}

std::string qos_class(const json& spec) {
  bool guaranteed = true, any = false;
  for (const json& container : spec.at("containers")) {
    const json& limits = at_path(container, {"resources", "limits"});
    const json& requests = at_path(container, {"resources", "requests"});
    for (const char* name : {"cpu", "memory"}) {
      any = any || limits.contains(name) || requests.contains(name);
      guaranteed = guaranteed && limits.contains(name) && at_path(requests, {name}) == limits.at(name);
    }
  }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

std::string container_id(const json& pod) { return "local://" + pod.at("metadata").value("uid", ""); }

json terminated_state(const Exit& exit, const std::string& message, const std::string& container) {
  std::string reason = exit.code == 0 ? "Completed" : "Error";
  if (exit.reason == "StartError") reason = "StartError";
  if (exit.reason == "Lost") reason = "ContainerStatusUnknown";
  json state = {{"exitCode", exit.code},
                {"reason", reason},
                {"startedAt", exit.started_at},
                {"finishedAt", exit.at},
                {"containerID", container}};
  if (!message.empty()) state["message"] = message;
  return state;
}

bool is_late(const PodState& state) { return state.exit && state.exit->reason == deadline_reason; }
bool has_succeeded(const PodState& state) { return state.exit && state.exit->code == 0 && !is_late(state); }
bool is_lost(const PodState& state) { return state.exit && state.exit->reason == "Lost"; }
// Whether the pod was lost, or ended by a shutdown of the cluster. Kubernetes calls this a disruption: the
// program has not failed, so the Job may ignore the end of the pod.
bool is_disrupted(const PodState& state) {
  return is_lost(state) || (state.exit && state.exit->reason == "shutdown");
}

std::string phase_of(const PodState& state) {
  if (state.exit) return has_succeeded(state) ? "Succeeded" : "Failed";
  return state.running_since ? "Running" : "Pending";
}

json container_status(const json& pod, const PodState& state) {
  const json& container = pod.at("spec").at("containers").at(0);
  const bool running = state.running_since.has_value();
  json status = {{"name", container.at("name")},
                 {"image", container.value("image", "")},
                 {"imageID", ""},
                 {"restartCount", 0},
                 {"ready", running},
                 {"started", running},
                 {"lastState", json::object()}};
  if (state.exit || running) status["containerID"] = container_id(pod);
  if (state.exit) {
    status["state"]["terminated"] =
        terminated_state(*state.exit, state.termination_message, container_id(pod));
  } else if (running) {
    status["state"]["running"]["startedAt"] = *state.running_since;
  } else {
    const auto waiting = state.waiting.value_or(std::make_pair("ContainerCreating", ""));
    status["state"]["waiting"] = {{"reason", waiting.first}};
    if (!waiting.second.empty()) status["state"]["waiting"]["message"] = waiting.second;
  }
  return status;
}

json conditions_of(const json& pod, const json& old_conditions, const PodState& state, Time now) {
  const bool running = state.running_since.has_value();
  std::string reason, not_ready;
  if (state.exit) {
    reason = has_succeeded(state) ? "PodCompleted" : "PodFailed";
  } else if (!running) {
    reason = "ContainersNotReady";
    not_ready =
        "containers with unready status: [" + pod.at("spec").at("containers").at(0).value("name", "") + "]";
  }
  json conditions = json::array();
  const auto put = [&](const std::string& type, bool value, const std::string& why, const std::string& text) {
    put_condition(conditions, old_conditions, type, value, why, text, now);
  };
  put("Initialized", true, has_succeeded(state) ? reason : "", "");
  put("Ready", running, running ? "" : reason, not_ready);
  put("ContainersReady", running, running ? "" : reason, not_ready);
  put("PodScheduled", true, "", "");
  if (is_disrupted(state)) {
    put("DisruptionTarget", true, "TerminationByKubelet",
        is_lost(state) ? "The process and its supervisor are gone."
                       : "Pod was terminated in response to imminent node shutdown.");
  }
  return conditions;
}

}  // namespace

json pod_status(const json& pod, const PodState& state, Time now) {
  const json old = pod.value("status", json::object());
  json status = {{"hostIP", "127.0.0.1"},
                 {"qosClass", qos_class(pod.at("spec"))},
                 {"startTime", past_time(old.value("startTime", format_time(now)), now)},
                 {"phase", phase_of(state)},
                 {"containerStatuses", json::array({container_status(pod, state)})},
                 {"conditions", conditions_of(pod, old.value("conditions", json::array()), state, now)}};
  if (!state.address.empty()) {
    status["podIP"] = state.address;
    status["podIPs"] = json::array({{{"ip", state.address}}});
    status["hostIPs"] = json::array({{{"ip", "127.0.0.1"}}});
  }
  if (is_disrupted(state)) {
    status["reason"] = is_lost(state) ? "NodeLost" : "Terminated";
    status["message"] = state.exit->message;
  }
  if (is_late(state)) {
    status["reason"] = deadline_reason;
    status["message"] = deadline_message;
  }
  return status;
}

std::optional<Time> deadline_of(const json& pod) {
  const json& seconds = at_path(pod.at("spec"), {"activeDeadlineSeconds"});
  if (!seconds.is_number_integer()) return std::nullopt;
  const auto start = parse_time(text_of(pod, {"status", "startTime"}));
  if (!start) return std::nullopt;
  return later(*start, seconds.get<long>());
}

std::optional<std::string> why_unschedulable(const json& pod, std::size_t free_gpus) {
  for (const json& container : pod.at("spec").at("containers")) {
    for (const auto& [name, amount] : at_path(container, {"resources", "requests"}).items()) {
      // The scheduler checks only resources with a vendor's name, so it ignores CPUs and memory. GPUs are the
      // only such resource of the node.
      if (name.find('/') == name.npos) continue;
      const auto number = quantity_of(amount);
      const double there = name == gpu_resource ? static_cast<double>(free_gpus) : 0;
      if (number && *number > there) return "0/1 nodes are available: 1 Insufficient " + name + ".";
    }
  }
  return std::nullopt;
}

json unschedulable_status(const json& pod, const std::string& why, Time now) {
  json conditions = json::array();
  const json old = pod.value("status", json::object());
  put_condition(conditions, old.value("conditions", json::array()), "PodScheduled", false, "Unschedulable",
                why, now);
  return {{"phase", "Pending"}, {"qosClass", qos_class(pod.at("spec"))}, {"conditions", conditions}};
}

std::string clean_text(const std::string& bytes, std::size_t limit) {
  std::string cut = bytes.substr(0, limit);
  // dump() replaces bytes that are not UTF-8, and the parser returns the text.
  const std::string text = json(cut).dump(-1, ' ', false, json::error_handler_t::replace);
  return parse_json(text, "the message").get<std::string>();
}

}  // namespace mlk::local
