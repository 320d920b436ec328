// What the pod of rank 0 does in addition to what all pods do: it starts mpirun when all agents are there,
// and decides who has failed.
#pragma once

#include <string>
#include <vector>

#include "mpi/link.h"

namespace mlk::mpi {

// Returns the exit code of the pod. `self`: the path of this program.
int launch(const PodEnvironment& environment, const std::vector<std::string>& program,
           const std::string& self);

// Who is at fault for an mpirun that did not end with 0, from what the agents have told.
struct Reported {
  std::size_t pod = 0;
  End end;
};
// The first that failed without having been told to end, or else with a code of its own; one that was aborted
// only if no other did.
// `reports` in the order of their arrival, `lost`: a pod was lost or was told to stop, which is nobody's
// fault. Nothing: nobody.
std::optional<Reported> at_fault(const std::vector<Reported>& reports, bool lost, int code_of_mpirun);

}  // namespace mlk::mpi
