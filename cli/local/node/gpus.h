// The GPUs of this machine, and the GPUs that pods have.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/state/store.h"

namespace mlk::local {

inline constexpr char gpu_resource[] = "nvidia.com/gpu";

// The GPUs that this process may use and that have device files (/dev/nvidia0, ...). They are named as in
// CUDA_VISIBLE_DEVICES. Tests set MLK_LOCAL_DEVICES to a folder that replaces /dev.
std::vector<std::string> gpus_of_machine();

// Of `count` GPUs, those that a process may use. `visible`: the value of CUDA_VISIBLE_DEVICES. If this
// variable is not set, a process may use all GPUs. As in CUDA, the list ends at the first word that does not
// name a GPU. Pure.
std::vector<std::string> visible_gpus(std::size_t count, const std::optional<std::string>& visible);

// The number of GPUs that a pod requests. Pure.
std::size_t wanted_gpus(const nlohmann::json& pod);

// The scheduler assigns GPUs together with the node, and stores their names in an annotation of the pod. So
// the pod has its GPUs until its end, even if this server ends. gpus_of: the names as in
// CUDA_VISIBLE_DEVICES; empty if the pod has no GPUs. Pure.
void give_gpus(nlohmann::json& pod, const std::vector<std::string>& free);
std::string gpus_of(const nlohmann::json& pod);

// The free GPUs of `all`, in the same order. A pod has its GPUs until it has ended. Pure.
std::vector<std::string> free_gpus(const std::vector<std::string>& all, const std::vector<Object>& pods);

}  // namespace mlk::local
