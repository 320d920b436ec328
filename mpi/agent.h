// The agent of a pod: it runs what the launcher's mpirun wants to run here, and gives the processes of the
// program what they execute.
#pragma once

#include <string>
#include <vector>

#include "mpi/link.h"

namespace mlk::mpi {

// Serves until the launcher says how the run has ended, the pod is told to stop, or no launcher was there for
// the patience. Returns the exit code of the pod. `program`: what the processes of this pod execute.
int serve(const PodEnvironment& environment, const std::vector<std::string>& program);

}  // namespace mlk::mpi
