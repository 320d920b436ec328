// Mode single: one process trains alone.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Trains to the end, starting at the newest checkpoint. Returns ExitCode::trained, or, after SIGTERM or
// SIGINT, ExitCode::terminated. Every other end is an exception.
ExitCode run_single(Job& job);

}  // namespace mlk::rt
