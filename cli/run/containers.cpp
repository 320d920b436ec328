#include "cli/run/containers.h"

#include <nlohmann/json.hpp>

#include "cli/run/facts.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr char main_name[] = "main";

// The kubelet writes 1970 for a container that never started.
std::optional<Time> time_unless_never(const json& state, const char* key) {
  const std::optional<Time> time = time_of(state, {key});
  return time && time->time_since_epoch().count() != 0 ? time : std::nullopt;
}

std::optional<ContainerEnd> read_container_end(const json& terminated) {
  if (!terminated.is_object()) return std::nullopt;
  return ContainerEnd{number_of(terminated, {"exitCode"}, -1), text_of(terminated, {"reason"}),
                      text_of(terminated, {"message"}), time_unless_never(terminated, "startedAt"),
                      time_unless_never(terminated, "finishedAt")};
}

void read_container_state(const json& status, Container& out) {
  const json& state = at_path(status, {"state"});
  out.waiting_reason = text_of(state, {"waiting", "reason"});
  out.waiting_message = text_of(state, {"waiting", "message"});
  out.runs = at_path(state, {"running"}).is_object();
  out.runs_since = time_of(state, {"running", "startedAt"});
  out.end = read_container_end(at_path(state, {"terminated"}));
  out.last_end = read_container_end(at_path(status, {"lastState", "terminated"}));
  out.restarts = number_of(status, {"restartCount"}, 0);
  out.let_main_start = at_path(status, {"started"}) == true;
}

bool failed_end(const std::optional<ContainerEnd>& end) { return end && end->exit_code != 0; }

// The program's end, and not that of another container, is why the pod ends; or neither is.
bool ends_without_others(const PodFacts& pod) {
  const bool of_cluster = !pod.pod_reason.empty() || !pod.disruption.empty();
  return of_cluster || pod.exit_code.value_or(0) != 0;
}

// A container that was only ended with its pod is not to blame for it.
bool ended_with_pod(const PodFacts& pod, const Container& container) {
  return pod.deleting &&
         (!pod.asked_to_end || !container.end->finished || *container.end->finished > *pod.asked_to_end);
}

}  // namespace

std::string main_container_of(const json& pod) {
  const json& containers = at_path(pod, {"spec", "containers"});
  if (!containers.is_array() || containers.size() != 1) return main_name;
  const std::string only = text_of(containers.front(), {"name"});
  return only.empty() ? main_name : only;
}

PodContainers read_containers(const json& pod) {
  PodContainers out;
  out.main.name = main_container_of(pod);
  for (const json& status : at_path(pod, {"status", "containerStatuses"})) {
    if (text_of(status, {"name"}) == out.main.name) read_container_state(status, out.main);
  }
  const auto read = [&](const char* list, const char* states, ContainerKind kind) {
    for (const json& entry : at_path(pod, {"spec", list})) {
      Container one;
      one.name = text_of(entry, {"name"});
      one.image = text_of(entry, {"image"});
      one.kind = kind;
      if (kind == ContainerKind::init && text_of(entry, {"restartPolicy"}) == "Always")
        one.kind = ContainerKind::sidecar;
      for (const json& status : at_path(pod, {"status", states})) {
        if (text_of(status, {"name"}) == one.name) read_container_state(status, one);
      }
      if (kind == ContainerKind::plain && one.name == out.main.name) {
        out.main = std::move(one);
        continue;
      }
      out.others.push_back(std::move(one));
    }
  };
  read("initContainers", "initContainerStatuses", ContainerKind::init);
  read("containers", "containerStatuses", ContainerKind::plain);
  return out;
}

std::string title(const Container& container) {
  return (container.kind == ContainerKind::init ? "init container " : "container ") + container.name;
}

const Container* holding_up(const PodFacts& pod) {
  if (pod.main_runs || pod.exit_code) return nullptr;
  for (const Container& other : pod.others) {
    if (other.kind == ContainerKind::plain) break;  // these and main start side by side
    const bool is_done =
        other.kind == ContainerKind::sidecar ? other.let_main_start : other.end && other.end->exit_code == 0;
    if (!is_done) return &other;
  }
  return nullptr;
}

const Container* at_fault(const PodFacts& pod) {
  if (ends_without_others(pod)) return nullptr;
  if (const Container* held = holding_up(pod)) {
    const std::optional<ContainerEnd>& end = held->end ? held->end : held->last_end;
    const bool to_blame = failed_end(end) && (held->kind == ContainerKind::init || !pod.ended());
    return to_blame && !(held->end && ended_with_pod(pod, *held)) ? held : nullptr;
  }
  if (pod.phase != "Failed") return nullptr;
  const Container* first = nullptr;
  for (const Container& other : pod.others) {
    if (other.kind == ContainerKind::sidecar || !failed_end(other.end) || ended_with_pod(pod, other))
      continue;
    if (first == nullptr || other.end->finished < first->end->finished) first = &other;
  }
  return first;
}

std::vector<std::string> waited_for(const PodFacts& pod) {
  std::vector<std::string> plain, sidecars;
  if (!pod.exit_code || pod.ended()) return plain;
  for (const Container& other : pod.others) {
    if (other.kind == ContainerKind::plain && !other.end) plain.push_back(other.name);
    if (other.kind == ContainerKind::sidecar && other.runs) sidecars.push_back(other.name);
  }
  return plain.empty() ? sidecars : plain;  // the kubelet ends sidecars by itself when all others have ended
}

}  // namespace mlk
