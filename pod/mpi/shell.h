// The program that mpirun uses as its remote shell.
#pragma once

#include <string>

#include "pod/mpi/link.h"

namespace mlk::mpi {

// Asks the agent of the host to run a command line, writes the output of the command, and returns the
// command's exit code. If the host is not in this run, if its agent cannot be reached or is lost, or if the
// command is too long, this process ends with 255, as ssh does. If this process ends, the command ends too.
int run_remotely(const PodEnvironment& environment, const std::string& host, const std::string& command);

}  // namespace mlk::mpi
