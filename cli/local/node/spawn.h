// Starts processes that outlive this one.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mlk::local {

// Runs `argv` in a session of its own, without input, with its output in `log`, and without our other
// descriptors. Returns the process id of the new process. While the calling process lives, it has to reap the
// new process. May be called while other threads run. Throws Error{failure}.
pid_t spawn_detached(const std::vector<std::string>& argv, const std::filesystem::path& log);

}  // namespace mlk::local
