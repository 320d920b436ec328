// A parameter server, which holds a shard of the model. Server 0 also coordinates the run.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Returns ExitCode::trained when the run is trained, or when all workers have been gone for patience_seconds.
// Returns peers_lost if no worker has ever connected. Returns terminated after a SIGTERM during training,
// when the servers have tried to save a checkpoint. Throws Failure for other errors.
ExitCode run_ps_server(Job& job);

}  // namespace mlk::rt
