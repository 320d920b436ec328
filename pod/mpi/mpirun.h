// How the launcher calls mpirun of Open MPI, or of MPICH and related libraries.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pod/mpi/link.h"

namespace mlk::mpi {

enum class Flavour { open_mpi, hydra };

// The kind of mpirun. `version`: the output of `mpirun --version`. nullopt: mlk does not know this program.
std::optional<Flavour> flavour_of(std::string_view version);

// The content of the host file, in the order of the ranks.
std::string host_file(Flavour flavour, const PodEnvironment& environment);

// The command line of mpirun. `self`: this program, which mpirun starts as each process.
std::vector<std::string> mpirun_words(Flavour flavour, const std::string& mpirun, const std::string& hosts,
                                      const PodEnvironment& environment, const std::string& self);

}  // namespace mlk::mpi
