#include "cli/local/node/pod_status.h"

#include "cli/local/state/json_field.h"
#include "cli/util/json.h"
#include "cli/util/quantity.h"

namespace mlk::local {

using nlohmann::json;

namespace {

// Keeps the old condition if its status does not change; otherwise the condition gets the present time.
void put_condition(json& conditions, const json& old_conditions, const std::string& type, bool value,
                   const std::string& reason, const std::string& message, Time now) {
  json condition = {{"type", type},
                    {"status", value ? "True" : "False"},
                    {"lastProbeTime", nullptr},
                    {"lastTransitionTime", format_time(now)}};
  if (!reason.empty()) condition["reason"] = reason;
  if (!message.empty()) condition["message"] = message;
  for (const json& old : old_conditions) {
    if (old.value("type", "") == type && old.value("status", "") == condition["status"]) {
      condition["lastTransitionTime"] = old.at("lastTransitionTime");
    }
  }
  conditions.push_back(condition);
}

std::string qos_class(const json& spec) {
  bool guaranteed = true, any = false;
  for (const json& container : spec.at("containers")) {
    const json resources = container.value("resources", json::object());
    const json limits = resources.value("limits", json::object()),
               requests = resources.value("requests", json::object());
    for (const char* name : {"cpu", "memory"}) {
      any = any || limits.contains(name) || requests.contains(name);
      guaranteed = guaranteed && limits.contains(name) && requests.value(name, json()) == limits.at(name);
    }
  }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

json terminated_state(const Exit& exit, const std::string& message) {
  std::string reason = exit.code == 0 ? "Completed" : "Error";
  if (exit.reason == "StartError") reason = "StartError";
  if (exit.reason == "Lost") reason = "ContainerStatusUnknown";
  json state = {
      {"exitCode", exit.code}, {"reason", reason}, {"startedAt", exit.started_at}, {"finishedAt", exit.at}};
  if (!message.empty()) state["message"] = message;
  return state;
}

}  // namespace

json pod_status(const json& pod, const PodState& state, Time now) {
  const json& spec = pod.at("spec");
  const json old = pod.value("status", json::object());
  const json old_conditions = old.value("conditions", json::array());
  const json& container = spec.at("containers").at(0);
  const bool running = state.running_since.has_value();
  json status = {{"hostIP", "127.0.0.1"},
                 {"qosClass", qos_class(spec)},
                 {"startTime", old.value("startTime", format_time(now))}};
  if (!state.address.empty()) {
    status["podIP"] = state.address;
    status["podIPs"] = json::array({{{"ip", state.address}}});
    status["hostIPs"] = json::array({{{"ip", "127.0.0.1"}}});
  }
  json container_status = {{"name", container.at("name")},
                           {"image", container.value("image", "")},
                           {"imageID", ""},
                           {"restartCount", 0},
                           {"ready", running},
                           {"started", running},
                           {"lastState", json::object()}};
  std::string reason;
  const bool too_late = state.exit && state.exit->reason == deadline_reason;
  const bool succeeded = state.exit && state.exit->code == 0 && !too_late;
  if (state.exit) {
    status["phase"] = succeeded ? "Succeeded" : "Failed";
    container_status["state"]["terminated"] = terminated_state(*state.exit, state.termination_message);
    container_status["containerID"] = "local://" + pod.at("metadata").value("uid", "");
    reason = succeeded ? "PodCompleted" : "PodFailed";
  } else if (running) {
    status["phase"] = "Running";
    container_status["state"]["running"]["startedAt"] = *state.running_since;
    container_status["containerID"] = "local://" + pod.at("metadata").value("uid", "");
  } else {
    const auto waiting = state.waiting.value_or(std::make_pair("ContainerCreating", ""));
    status["phase"] = "Pending";
    container_status["state"]["waiting"] = {{"reason", waiting.first}};
    if (!waiting.second.empty()) container_status["state"]["waiting"]["message"] = waiting.second;
    reason = "ContainersNotReady";
  }
  status["containerStatuses"] = json::array({container_status});
  json conditions = json::array();
  const std::string not_ready = reason == "ContainersNotReady"
                                    ? "containers with unready status: [" + container.value("name", "") + "]"
                                    : "";
  put_condition(conditions, old_conditions, "Initialized", true, succeeded ? reason : "", "", now);
  put_condition(conditions, old_conditions, "Ready", running, running ? "" : reason, not_ready, now);
  put_condition(conditions, old_conditions, "ContainersReady", running, running ? "" : reason, not_ready,
                now);
  put_condition(conditions, old_conditions, "PodScheduled", true, "", "", now);
  if (state.exit && (state.exit->reason == "Lost" || state.exit->reason == "shutdown")) {
    // As when a node shuts down: the program has not failed, and the Job may ignore it.
    put_condition(conditions, old_conditions, "DisruptionTarget", true, "TerminationByKubelet",
                  state.exit->reason == "Lost" ? "The process and its supervisor are gone."
                                               : "Pod was terminated in response to imminent node shutdown.",
                  now);
    status["reason"] = state.exit->reason == "Lost" ? "NodeLost" : "Terminated";
    status["message"] = state.exit->message;
  }
  if (too_late) {
    status["reason"] = deadline_reason;
    status["message"] = deadline_message;
  }
  status["conditions"] = conditions;
  return status;
}

std::optional<Time> deadline_of(const json& pod) {
  const json& seconds = field(pod.at("spec"), "activeDeadlineSeconds");
  if (!seconds.is_number_integer()) return std::nullopt;
  const auto start = parse_time(text_field(field(pod, "status"), "startTime"));
  if (!start) return std::nullopt;
  return later(*start, seconds.get<long>());
}

std::optional<std::string> why_unschedulable(const json& pod) {
  for (const json& container : pod.at("spec").at("containers")) {
    const json requests = container.value("resources", json::object()).value("requests", json::object());
    for (const auto& [name, amount] : requests.items()) {
      // CPUs and memory are not counted; the node has no resources with a vendor's name.
      if (name.find('/') == name.npos) continue;
      const auto number = quantity_of(amount);
      if (number && *number > 0) return "0/1 nodes are available: 1 Insufficient " + name + ".";
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
  // dump() replaces what is not UTF-8, and the parser gives it back.
  const std::string text = json(cut).dump(-1, ' ', false, json::error_handler_t::replace);
  return parse_json(text, "the message").get<std::string>();
}

}  // namespace mlk::local
