// The supervisor process of a pod: it starts the pod's program, writes the log, and records how the program
// ended.
#pragma once

#include <filesystem>

namespace mlk::local {

// Runs the supervisor of one pod; `pod_folder` has everything that the supervisor needs. Returns the
// exit code of the supervisor.
int supervise(const std::filesystem::path& pod_folder);

}  // namespace mlk::local
