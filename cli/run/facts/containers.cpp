#include "cli/run/facts/containers.h"

#include <nlohmann/json.hpp>

#include "cli/util/json_path.h"

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr char main_name[] = "main";

// The kubelet writes 1970 for a container that never started: such a time counts as absent.
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

}  // namespace mlk
