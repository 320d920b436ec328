// The process that mpirun starts for each rank, in every pod. It runs the program.
#pragma once

#include "pod/mpi/link.h"

namespace mlk::mpi {

// Asks the pod's agent for the program, runs the program, reports the program's end to the agent, and returns
// the program's exit code. If this process ends, the program ends too. The program writes to the log of its
// own pod.
int run_process(const PodEnvironment& environment);

}  // namespace mlk::mpi
