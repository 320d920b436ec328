// Ends processes, and only those that are meant: the only place of the embedded cluster that sends signals
// and reads /proc.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>

namespace mlk::local {

// Identifies a process even after its number is used again. All fields are 0 or empty where the system does
// not tell.
struct ProcessId {
  pid_t pid = 0;
  unsigned long long start = 0;  // in ticks since the machine started
  std::string boot;              // this start of the machine

  static ProcessId of_this_process();
  bool operator==(const ProcessId&) const = default;
};

// Signals the process that holds the lock. False when nobody does, or a process that is not ours to signal:
// one of another machine or container.
bool signal_holder(const std::filesystem::path& lock, int number);

// Signals the process group of a child that is not reaped yet, so that the number is certainly its own.
void signal_group(pid_t child, int number);

// Makes this process the parent of all orphans below it: what a program starts in a session of its own, or
// leaves behind, stays within reach. Nothing happens where the system does not have that.
void adopt_orphans();

// Kills every process below this one and reaps it, all but `kept`, which is killed and left to be reaped.
// Needs adopt_orphans(). False when some were still there at the end of `limit`.
bool end_descendants(pid_t kept, std::chrono::milliseconds limit);

// Kills what is left of a pod whose supervisor has died: the processes of the supervisor's session, and those
// whose environment has NAME=VALUE of `mark`.
void end_orphans(const ProcessId& supervisor, const std::string& mark);

}  // namespace mlk::local
