// A parameter server, which holds a shard of the model. Server 0 also coordinates the run.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Returns ExitCode::trained when the run is trained, or when no worker has been connected for
// patience_seconds. Returns terminated after a SIGTERM, with a checkpoint of all servers. Throws Failure for
// other errors.
ExitCode run_ps_server(Job& job);

}  // namespace mlk::rt
