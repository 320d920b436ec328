// The launcher runs in the pod of rank 0, in addition to the agent: it starts mpirun when all agents are
// connected, and decides which process has failed.
#pragma once

#include <string>
#include <vector>

#include "pod/mpi/link.h"

namespace mlk::mpi {

// Does not return: ends this process with the exit code of the pod. `self`: the path of this program.
int launch(const PodEnvironment& environment, const std::vector<std::string>& program,
           const std::string& self);

// A failed process, as the agent of its pod has reported it.
struct Reported {
  std::size_t pod = 0;
  End end;
};
// The process at fault if mpirun has failed: the first process that failed without being told to end, or else
// the first process with an exit code of its own, or else mpirun (as rank 0 of pod 0). Aborted processes come
// after the others. `reports`: in the order of their arrival. `lost`: a pod was lost or was asked to stop;
// then no process is at fault, and the result is nullopt.
std::optional<Reported> at_fault(const std::vector<Reported>& reports, bool lost, int code_of_mpirun);

}  // namespace mlk::mpi
