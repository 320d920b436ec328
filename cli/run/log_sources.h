// Whose logs are read for a run: the program's of each pod, and that of a container before it that failed.
// Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/log_follower.h"

namespace mlk {

// Whose log it is; the line's text and time are filled in later.
struct LogSource {
  RunLogLine who;
  std::string container;
};

// The containers of a pod whose logs are read. `wanted`: that one alone, none if the pod has none of that
// name. Else main, unless the pod has ended before its start; and the container before main that failed.
std::vector<std::string> containers_to_read(const nlohmann::json& pod, const std::string& wanted);

// With the pods, in their order.
std::vector<std::pair<LogSource, const nlohmann::json*>> choose_sources(
    const std::vector<nlohmann::json>& pods, const LogFilter& filter);

// The names of all containers of these pods, each once: main first.
std::vector<std::string> container_names(const std::vector<nlohmann::json>& pods);

}  // namespace mlk
