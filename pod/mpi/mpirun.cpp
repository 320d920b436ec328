#include "pod/mpi/mpirun.h"

#include "pod/mpi/children.h"

namespace mlk::mpi {

std::optional<Flavour> flavour_of(std::string_view version) {
  for (const char* word : {"Open MPI", "OpenRTE", "PRRTE"}) {
    if (version.find(word) != version.npos) return Flavour::open_mpi;
  }
  for (const char* word : {"HYDRA", "Hydra", "hydra"}) {
    if (version.find(word) != version.npos) return Flavour::hydra;
  }
  return std::nullopt;
}

std::string host_file(Flavour flavour, const PodEnvironment& environment) {
  std::string out;
  for (const Address& each : environment.all) {
    out += each.host;
    out += flavour == Flavour::open_mpi ? " slots=" : ":";
    out += number(environment.processes);
    out += '\n';
  }
  return out;
}

std::vector<std::string> mpirun_words(Flavour flavour, const std::string& mpirun, const std::string& hosts,
                                      const PodEnvironment& environment, const std::string& self) {
  const std::string count = number(static_cast<long long>(environment.all.size()) * environment.processes);
  if (flavour == Flavour::open_mpi)
    return {mpirun, "--hostfile", hosts, "-wdir", "/", "-n", count, self, "--rank"};
  // -genvnone: mpirun passes no environment, since every process uses the environment of its own pod.
  // -localhost: the other pods can reach this address, but cannot resolve the name of this host.
  return {mpirun,  "-f", hosts, "-genvnone", "-localhost", environment.own.host,
          "-wdir", "/",  "-n",  count,       self,         "--rank"};
}

}  // namespace mlk::mpi
