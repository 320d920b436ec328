// The program that mpirun uses as its remote shell.
#pragma once

#include <string>

#include "mpi/link.h"

namespace mlk::mpi {

// Asks the agent of the host to run a command line, writes the output of the command, and returns the
// command's exit code. Returns 255, like ssh, if the agent cannot be reached or is lost. If this process
// ends, the command ends too.
int run_remotely(const PodEnvironment& environment, const std::string& host, const std::string& command);

}  // namespace mlk::mpi
