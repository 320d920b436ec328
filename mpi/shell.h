// What mpirun takes for a remote shell.
#pragma once

#include <string>

#include "mpi/link.h"

namespace mlk::mpi {

// Has the agent of the host run a command line, writes what that writes, and returns its exit code; 255, as
// ssh does, if the agent cannot be reached or is lost. The command ends with this process.
int run_remotely(const PodEnvironment& environment, const std::string& host, const std::string& command);

}  // namespace mlk::mpi
