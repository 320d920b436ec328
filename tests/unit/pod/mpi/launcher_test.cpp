// Checks the command line of mpirun, and which process is at fault if mpirun fails.
#include "pod/mpi/launcher.h"

#include <doctest/doctest.h>

#include "pod/mpi/mpirun.h"

TEST_SUITE_BEGIN("pod/mpi/launcher");

namespace mlk::mpi {
namespace {

PodEnvironment three_pods() {
  PodEnvironment environment;
  environment.own = parse_address("x-worker-0.x:7070");
  for (const char* address : {"x-worker-0.x:7070", "x-worker-1.x:7070", "x-worker-2.x:7071"})
    environment.all.push_back(parse_address(address));
  environment.processes = 2;
  return environment;
}

TEST_CASE("flavour_of() finds the kind of mpirun in the version text") {
  CHECK(flavour_of("mpirun (Open MPI) 5.0.3\n") == Flavour::open_mpi);
  CHECK(flavour_of("mpirun.openmpi (OpenRTE) 4.1.4\n") == Flavour::open_mpi);
  CHECK(flavour_of("prterun (PRRTE) 3.0.7\n") == Flavour::open_mpi);
  CHECK(flavour_of("HYDRA build details:\n    Version: 4.0.2\n") == Flavour::hydra);
  CHECK_FALSE(flavour_of("srun 23.02\n"));
  CHECK_FALSE(flavour_of(""));
}

TEST_CASE(
    "each kind of mpirun has its own host file format, and MPICH's mpirun is told to pass no environment "
    "on") {
  const PodEnvironment environment = three_pods();
  CHECK(host_file(Flavour::open_mpi, environment) ==
        "x-worker-0.x slots=2\nx-worker-1.x slots=2\nx-worker-2.x slots=2\n");
  CHECK(host_file(Flavour::hydra, environment) == "x-worker-0.x:2\nx-worker-1.x:2\nx-worker-2.x:2\n");
  const auto words = mpirun_words(Flavour::hydra, "mpirun", "/hosts", environment, "/mlk-mpi");
  CHECK(words == std::vector<std::string>{"mpirun", "-f", "/hosts", "-genvnone", "-localhost", "x-worker-0.x",
                                          "-wdir", "/", "-n", "6", "/mlk-mpi", "--rank"});
}

TEST_CASE(
    "find() knows a host by the whole name or the part before the first dot, but not by part of an address") {
  PodEnvironment environment = three_pods();
  REQUIRE(environment.find("x-worker-2.x") != nullptr);
  CHECK(environment.find("x-worker-2.x")->port == "7071");
  CHECK(environment.find("x-worker-2") == environment.find("x-worker-2.x"));
  CHECK(environment.find("x-worker") == nullptr);
  environment.own = parse_address("127.1.2.3:7070");
  environment.all = {parse_address("127.1.2.3:7070")};
  CHECK(environment.find("127") == nullptr);
  CHECK(environment.find("127.1.2.3") != nullptr);
}

TEST_CASE("at_fault() names the first process that failed without being told to end") {
  const std::vector<Reported> reports{{2, {.rank = 4, .code = 143, .told = true}},
                                      {1, {.rank = 3, .code = 7, .told = false}},
                                      {0, {.rank = 0, .code = 1, .told = false}}};
  const auto fault = at_fault(reports, false, 1);
  REQUIRE(fault);
  CHECK(fault->pod == 1);
  CHECK(fault->end.code == 7);
}

TEST_CASE("at_fault() names an aborted process only if no other process failed without being told to end") {
  const Reported aborted{2, {.rank = 4, .code = 134, .told = false}};
  const Reported failed{1, {.rank = 3, .code = 7, .told = false}};
  const Reported told{0, {.rank = 0, .code = 9, .told = true}};
  CHECK(at_fault({aborted, told, failed}, false, 135)->pod == 1);
  CHECK(at_fault({failed, aborted}, false, 135)->pod == 1);
  CHECK(at_fault({told, aborted}, false, 134)->pod == 2);
  CHECK(at_fault({{1, {.rank = 3, .code = 139, .told = false}}, failed}, false, 7)->end.code == 139);
}

TEST_CASE("at_fault() names no process if a pod was lost") {
  CHECK_FALSE(at_fault({{1, {.rank = 3, .code = 1, .told = false}}}, true, 1));
  CHECK_FALSE(at_fault({}, true, 137));
}

TEST_CASE(
    "if all processes were told to end, at_fault() names one that neither SIGTERM nor SIGKILL ended, or else "
    "mpirun") {
  const std::vector<Reported> reports{{2, {.rank = 4, .code = 143, .told = true}},
                                      {1, {.rank = 2, .code = 9, .told = true}}};
  CHECK(at_fault(reports, false, 9)->pod == 1);
  CHECK(at_fault({reports.front()}, false, 9)->pod == 0);
  CHECK(at_fault({reports.front()}, false, 9)->end.code == 9);
  CHECK(at_fault({}, false, 0)->end.code == 1);
  const Reported aborted{0, {.rank = 0, .code = 134, .told = true}};
  CHECK(at_fault({aborted, reports.front(), reports.back()}, false, 9)->pod == 1);
  CHECK(at_fault({reports.front(), aborted}, false, 134)->pod == 0);
}

}  // namespace
}  // namespace mlk::mpi
