// A parameter server: holds its shard of the model; server 0 also coordinates.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Serves until the run is trained, or until it has heard no worker for patience_seconds: trained. After a
// SIGTERM terminated, with a checkpoint of all servers. Throws Failure for other errors.
ExitCode run_ps_server(Job& job);

}  // namespace mlk::rt
