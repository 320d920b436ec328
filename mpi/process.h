// A process of the program: what mpirun starts, in every pod.
#pragma once

#include "mpi/link.h"

namespace mlk::mpi {

// Asks the pod's agent for the program, runs it, tells the agent how it ended, and returns its exit code. The
// program ends with this process, and writes to the log of its own pod.
int run_process(const PodEnvironment& environment);

}  // namespace mlk::mpi
