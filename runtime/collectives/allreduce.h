// A worker of a run with allreduce: every rank holds the whole model, and all ranks make each step together.
#pragma once

#include "runtime/base/exit_code.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Trains until the run is trained. Other ranks may leave and come back meanwhile. After a SIGTERM it returns
// ExitCode::terminated. Throws Failure{peers_lost} if too few ranks are connected for patience_seconds, and
// Failure for other errors.
ExitCode run_allreduce(Job& job);

}  // namespace mlk::rt
