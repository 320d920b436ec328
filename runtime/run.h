// One process of a run, from its environment to its exit code.
#pragma once

#include <ostream>

#include "runtime/base/exit_code.h"

namespace mlk::rt {

// Reads the environment and the configuration, runs this process's part of the run, prints metrics lines to
// `metrics` and messages to stderr, and writes the result file. Throws nothing: the log and the result
// contain all errors. Handles SIGTERM and SIGINT for the process, so only one call may run at a time.
ExitCode run(std::ostream& metrics);

}  // namespace mlk::rt
