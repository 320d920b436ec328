// Mode single: one process trains alone.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Trains to the end, starting at the newest checkpoint. Returns trained, or terminated after SIGTERM or
// SIGINT. Every other end is an exception.
ExitCode run_single(Job& job);

}  // namespace mlk::rt
