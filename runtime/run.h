// One process of a run, from its environment to its exit code.
#pragma once

#include <ostream>

#include "runtime/base/exit_code.h"

namespace mlk::rt {

// Reads the environment and the configuration, runs this process's part of the run, prints metrics lines to
// `metrics` and other words to stderr, and writes the result file. Throws nothing: what goes wrong is told in
// the log and in the result. It takes over SIGTERM and SIGINT, so only one call
// runs at a time.
ExitCode run(std::ostream& metrics);

}  // namespace mlk::rt
