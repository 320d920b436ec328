// The process beside a pod's: it starts the pod's program, keeps its log and writes down how it ended.
#pragma once

#include <filesystem>

namespace mlk::local {

// Runs the supervisor of one pod; `pod_folder` has everything it needs. Returns its exit code.
int supervise(const std::filesystem::path& pod_folder);

}  // namespace mlk::local
