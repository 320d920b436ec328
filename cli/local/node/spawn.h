// Starts processes that outlive this one.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mlk::local {

// Runs `argv` in a session of its own, without input, with its output in `log`, and without our other
// descriptors. Returns its process id; while this process lives, it has to reap that process. Safe with
// several threads. Throws Error{failure}.
pid_t spawn_detached(const std::vector<std::string>& argv, const std::filesystem::path& log);

}  // namespace mlk::local
