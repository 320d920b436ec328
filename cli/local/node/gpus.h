// The GPUs of this machine, and which of them pods have.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/state/store.h"

namespace mlk::local {

inline constexpr char gpu_resource[] = "nvidia.com/gpu";

// Names as CUDA_VISIBLE_DEVICES has them, of the GPUs with device files (/dev/nvidia0, ...) that this process
// sees. In MLK_LOCAL_DEVICES tests name another folder than /dev.
std::vector<std::string> gpus_of_machine();

// Those of `count` that CUDA_VISIBLE_DEVICES lets a process see: all if it is not set. As CUDA reads it, the
// list ends at the first word that names none. Pure.
std::vector<std::string> visible_gpus(std::size_t count, const std::optional<std::string>& visible);

// How many a pod asks for. Pure.
std::size_t wanted_gpus(const nlohmann::json& pod);

// The scheduler gives them with the node, and keeps them in an annotation of the pod: it has them until it
// has ended, whatever becomes of this server. gpus_of: as CUDA_VISIBLE_DEVICES; empty: none. Pure.
void give_gpus(nlohmann::json& pod, const std::vector<std::string>& free);
std::string gpus_of(const nlohmann::json& pod);

// Those of `all` that are free, in the same order: a pod has its GPUs until it has ended. Pure.
std::vector<std::string> free_gpus(const std::vector<std::string>& all, const std::vector<Object>& pods);

}  // namespace mlk::local
