// Processes that mlk-mpi starts, and how they end: everything below it ends with it.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mlk::mpi {

// From now on SIGTERM, SIGINT and SIGCHLD are read from the descriptor that is returned, and orphans below
// this process become its children.
int take_signals();

// What arrived since the last call.
struct Arrived {
  bool stop = false;   // SIGTERM or SIGINT
  bool child = false;  // SIGCHLD
};
Arrived read_signals(int fd);

// Kills this process with `parent`, by which it was forked; ends it at once if that has ended already: no
// signal would come then.
void end_with(pid_t parent);

// Starts a program in a process group of its own, with /dev/null as its input and the descriptors as its
// outputs; -1: it could not be started. A program that is not there ends with 127, as in a shell.
pid_t spawn(const std::vector<std::string>& words, int out, int err);

int code_of(int wait_status);  // as in a shell: 128 + the signal

// What a program says, its first 64 KiB, and how it ends.
struct Said {
  std::string text;
  int code = 0;
  bool in_time = true;  // false: it had not ended in this time, and it and its group were killed
};
Said said_by(const std::vector<std::string>& words, std::int64_t bound_ms);

// Kills what is below this process, but not `except` and what is below that.
void kill_descendants(pid_t except = 0);

std::string number(long long value);

}  // namespace mlk::mpi
