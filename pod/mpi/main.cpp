// mlk-mpi: the helper of `framework: mpi`, which mlk copies into every pod.
//   mlk-mpi --launch PROGRAM...   what a pod runs
//   mlk-mpi HOST COMMAND...       what mpirun starts as its remote shell
//   mlk-mpi --rank                what mpirun starts as the processes of the program
#include <cstdlib>
#include <string_view>

#include "pod/mpi/agent.h"
#include "pod/mpi/launcher.h"
#include "pod/mpi/process.h"
#include "pod/mpi/shell.h"

using namespace mlk::mpi;

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (argc < 2 || (argc < 3 && first != "--rank"))
    give_up(64, "usage: mlk-mpi --launch PROGRAM... | mlk-mpi HOST COMMAND... | mlk-mpi --rank");
  const PodEnvironment environment = read_pod_environment();
  std::vector<std::string> words(argv + 2, argv + argc);
  if (first == "--rank") return run_process(environment);
  if (first != "--launch") {
    std::string command;
    for (const std::string& word : words) command += (command.empty() ? "" : " ") + word;
    return run_remotely(environment, std::string(first), command);
  }
  if (environment.on_one_machine()) {
    setenv("TMPDIR", environment.folder.c_str(), 1);
    for (const char* name : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
                             "PRTE_MCA_oob_tcp_if_include", "HYDRA_IFACE"})
      setenv(name, "lo", 0);
  }
  return environment.rank == "0" ? launch(environment, words, argv[0]) : serve(environment, words);
}
