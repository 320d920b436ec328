// The launcher runs in the pod of rank 0, in addition to the agent: it starts mpirun when all agents are
// connected, and decides which process has failed.
#pragma once

#include <string>
#include <vector>

#include "mpi/link.h"

namespace mlk::mpi {

// Returns the exit code of the pod. `self`: the path of this program.
int launch(const PodEnvironment& environment, const std::vector<std::string>& program,
           const std::string& self);

// The process that is at fault when mpirun did not end with 0, as the agents have reported it.
struct Reported {
  std::size_t pod = 0;
  End end;
};
// The first process that failed without having been told to end, or else the first process with an exit code
// of its own. An aborted process is at fault only if no other process failed by itself. `reports` in the
// order of their arrival, `lost`: a pod was lost or was told to stop, which is no process's fault. nullopt:
// no process is at fault.
std::optional<Reported> at_fault(const std::vector<Reported>& reports, bool lost, int code_of_mpirun);

}  // namespace mlk::mpi
