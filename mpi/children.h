// Processes that mlk-mpi starts, and how they end: all descendants of mlk-mpi end with it.
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

// Lets the kernel kill this process when `parent`, which has forked it, ends. Ends this process at once if
// `parent` has already ended, since no signal would come then.
void end_with(pid_t parent);

// Starts a program in a process group of its own, with /dev/null as its input and the descriptors as its
// outputs; -1: it could not be started. A program that is not there ends with 127, as in a shell.
pid_t spawn(const std::vector<std::string>& words, int out, int err);

int code_of(int wait_status);  // as in a shell: 128 + the signal

// The first 64 KiB of a program's output, and how the program ends.
struct Said {
  std::string text;
  int code = 0;
  bool in_time = true;  // false: it had not ended within the limit, so it was killed with its group
};
Said said_by(const std::vector<std::string>& words, std::int64_t bound_ms);

// Kills all descendants of this process, but not `except` and the descendants of `except`.
void kill_descendants(pid_t except = 0);

std::string number(long long value);

}  // namespace mlk::mpi
