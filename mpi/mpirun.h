// How mpirun is called: the one of Open MPI, or the one of MPICH and related libraries.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/link.h"

namespace mlk::mpi {

enum class Flavour { open_mpi, hydra };

// From what `mpirun --version` says.
std::optional<Flavour> flavour_of(std::string_view version);

// The file of hosts, in the order of their ranks.
std::string host_file(Flavour flavour, const PodEnvironment& environment);

// The command line. `self`: this program, which becomes the processes.
std::vector<std::string> mpirun_words(Flavour flavour, const std::string& mpirun, const std::string& hosts,
                                      const PodEnvironment& environment, const std::string& self);

}  // namespace mlk::mpi
