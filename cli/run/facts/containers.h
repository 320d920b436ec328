// What a pod says of its containers. `main` is the program's, by name and never by place: clusters put
// containers of their own before and after it, and the kubelet sorts by name what it says of them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// plain: beside main. init: before main, to its end. sidecar: an init container that is started again for as
// long as main runs (restartPolicy: Always).
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
  bool let_main_start = false;  // of a sidecar: its start is done
  std::optional<Time> runs_since;
  std::string waiting_reason, waiting_message;
  std::optional<ContainerEnd> end;       // it has ended
  std::optional<ContainerEnd> last_end;  // it had ended before it was started again
  int restarts = 0;
};

struct PodContainers {
  Container main;
  std::vector<Container> others;  // those that start before main first, in their order
};

// The name of the program's container: main. A pod that has none by that name, and only one container, has
// that one.
std::string main_container_of(const nlohmann::json& pod);

PodContainers read_containers(const nlohmann::json& pod);

// "container agent", "init container fetch"
std::string title(const Container& container);

}  // namespace mlk
