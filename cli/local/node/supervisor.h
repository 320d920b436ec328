// The process beside a pod's: it starts the pod's program, keeps its log and writes down how it ended.
#pragma once

#include <filesystem>

namespace mlk::local {

// The supervisor of one pod, `pod_folder` holds what it has to know. Returns its exit code.
int supervise(const std::filesystem::path& pod_folder);

}  // namespace mlk::local
