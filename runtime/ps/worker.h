// A worker of a run with parameter servers.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Trains until the run is trained. Meanwhile, servers and other workers may leave and come back. After a
// SIGTERM, returns ExitCode::terminated. Throws Failure{peers_lost} if servers are missing for
// patience_seconds, and Failure for other errors.
ExitCode run_ps_worker(Job& job);

}  // namespace mlk::rt
