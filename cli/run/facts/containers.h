// Reads what a pod reports about its containers. `main` is the program's container. It is found by its name,
// or as the only container of the pod, and never by its position: clusters put their own containers before
// and after it, and the kubelet sorts the statuses of containers by name. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// plain: runs beside main. init: runs before main and ends before main starts. sidecar: an init container
// that is restarted as long as main runs (restartPolicy: Always).
enum class ContainerKind { plain, init, sidecar };

struct ContainerEnd {
  int exit_code = -1;
  std::string reason, message;  // "Error", "OOMKilled", "StartError"; the termination message
  std::optional<Time> started, finished;
};

struct Container {
  std::string name, image;
  ContainerKind kind = ContainerKind::plain;
  bool runs = false;
  bool let_main_start = false;  // of a sidecar: the sidecar has started, so main may start
  std::optional<Time> runs_since;
  std::string waiting_reason, waiting_message;
  std::optional<ContainerEnd> end;       // set if the container has ended
  std::optional<ContainerEnd> last_end;  // the end before its latest start
  int restarts = 0;
};

struct PodContainers {
  Container main;
  std::vector<Container> others;  // init containers and sidecars first; each in the order of the pod's spec
};

// The name of the program's container: main. If no container has this name and the pod has only one
// container, the name of that container.
std::string main_container_of(const nlohmann::json& pod);

PodContainers read_containers(const nlohmann::json& pod);

// "container agent", "init container fetch"
std::string title(const Container& container);

}  // namespace mlk
