// Starts and ends the processes of mlk-mpi. Before the launcher or an agent ends, it kills all of its
// descendants.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mlk::mpi {

// From now on the caller reads SIGTERM, SIGINT and SIGCHLD from the returned descriptor, and orphans below
// this process become its children.
int take_signals();

// The signals that have arrived since the last call.
struct Arrived {
  bool stop = false;   // SIGTERM or SIGINT
  bool child = false;  // SIGCHLD
};
Arrived read_signals(int fd);

// Makes the kernel kill this process when `parent` ends. `parent`: the process that has forked this process.
// If `parent` has already ended, the kernel sends no signal, so end_with() ends this process at once.
void end_with(pid_t parent);

// Starts a program in a process group of its own, with /dev/null as its input and the descriptors as its
// outputs. Returns -1 if no process could be started. If the program does not exist, the process ends with
// 127, as in a shell.
pid_t spawn(const std::vector<std::string>& words, int out, int err);

int code_of(int wait_status);  // as in a shell: the exit code, or 128 + the signal

// The standard output of a program (at least its first 64 KiB), and how the program ended.
struct Said {
  std::string text;
  int code = 0;
  bool in_time = true;  // false: the program did not end within the limit, and was killed with its group
};
Said said_by(const std::vector<std::string>& words, std::int64_t bound_ms);

// Kills all descendants of this process. `except` and the descendants of `except` stay alive.
void kill_descendants(pid_t except = 0);

std::string number(long long value);

}  // namespace mlk::mpi
