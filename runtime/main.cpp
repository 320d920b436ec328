// mlk-runtime: reads the arguments, and sets up standard streams, signals and memory. run.cpp does the
// training.
#include <chrono>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

#include "runtime/base/exit_code.h"
#include "runtime/base/freed_memory.h"
#include "runtime/base/log.h"
#include "runtime/launch/processes.h"
#include "runtime/run.h"

namespace mlk::rt {
namespace {

constexpr const char* help =
    "usage: mlk-runtime [--help | --version]\n"
    "\n"
    "One process of a training run. It is started by mlk, in a pod or locally, and takes everything from "
    "the\n"
    "environment (MLK_RUN, MLK_ROLE, MLK_RANK, MLK_CONFIG, MLK_DATA, ...): runtime/CONTRACT.md describes "
    "these\n"
    "variables, the configuration, the metrics lines on stdout, the result file and the exit codes.\n";

// A process may be started without a standard stream. Then the next file that is opened would get the number
// of that stream, and metrics lines would end up in a checkpoint.
void open_missing_streams() {
  int fd = 0;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd > STDERR_FILENO) close(fd);
}

int run_pod(int processes) {
  try {
    return run_processes(processes);
  } catch (const std::exception& error) {
    Log("mlk-runtime").line(error.what());
    return static_cast<int>(ExitCode::internal_error);
  }
}

}  // namespace
}  // namespace mlk::rt

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argc == 2 && argument == "--version") {
    std::cout << "mlk-runtime " MLK_VERSION "\n";
    return 0;
  }
  if (argc == 2 && argument == "--help") {
    std::cout << mlk::rt::help;
    return 0;
  }
  if (argc > 1) {
    std::cerr << mlk::rt::help;
    return static_cast<int>(mlk::rt::ExitCode::bad_configuration);
  }
  mlk::rt::open_missing_streams();
  mlk::rt::keep_freed_memory();
  // The process that reads the logs may end. The training must not end then.
  std::signal(SIGPIPE, SIG_IGN);
  // If a file reaches the limit of its size, the write must fail, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  if (const int processes = mlk::rt::processes_of_pod(); processes > 1) return mlk::rt::run_pod(processes);
  const mlk::rt::ExitCode code = mlk::rt::run(std::cout);
  // containerd drops the tail of a log when the process exits right after writing it.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return static_cast<int>(code);
}
