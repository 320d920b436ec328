// A parameter server, which holds a shard of the model. Server 0 also coordinates the run.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Returns ExitCode::trained when the run is trained, or when all workers have been gone for patience_seconds.
// Returns ExitCode::peers_lost if no worker has ever connected. After a SIGTERM during training, the servers
// try to save a checkpoint, and then the function returns ExitCode::terminated. Throws Failure for other
// errors.
ExitCode run_ps_server(Job& job);

}  // namespace mlk::rt
