// The agent of a pod: it runs the commands of the launcher's mpirun in this pod, and sends the program to the
// processes that execute it.
#pragma once

#include <string>
#include <vector>

#include "pod/mpi/link.h"

namespace mlk::mpi {

// Serves until the launcher sends the exit code, or until the pod has had no launcher for patience_ms. After
// SIGTERM or SIGINT it serves until all processes of the pod have ended, for time_to_stop_ms at most. Returns
// the exit code of the pod. `program`: the command line that the processes of this pod execute.
int serve(const PodEnvironment& environment, const std::vector<std::string>& program);

}  // namespace mlk::mpi
