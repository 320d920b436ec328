// Ends processes, and only the intended ones. No other file of the embedded cluster sends signals or reads
// /proc/<pid>.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>

namespace mlk::local {

// Identifies a process even after its number is reused. Fields that the system does not report are 0 or
// empty.
struct ProcessId {
  pid_t pid = 0;
  unsigned long long start = 0;  // the time of its start, in ticks since the machine started
  std::string boot;              // identifies this start of the machine

  static ProcessId of_this_process();
  bool operator==(const ProcessId&) const = default;
};

// Signals the process that holds the lock. False if no process holds the lock, or if the process belongs to
// another machine or container, so that we cannot signal it.
bool signal_holder(const std::filesystem::path& lock, int number);

// Signals the process group of a child. The child must not be reaped yet, so that no other group has its
// number.
void signal_group(pid_t child, int number);

// Makes this process the parent of all orphans below it, so that this process can end everything that a
// program started in other sessions or left behind. Has no effect if the system does not support such a
// parent.
void adopt_orphans();

// Kills and reaps every descendant of this process, except `kept`, which is killed but not reaped. Needs
// adopt_orphans(). False if some descendants still exist after `limit`.
bool end_descendants(pid_t kept, std::chrono::milliseconds limit);

// Kills the remaining processes of a pod whose supervisor has died: the processes of the supervisor's
// session, and all processes whose environment contains `mark` (NAME=VALUE).
void end_orphans(const ProcessId& supervisor, const std::string& mark);

}  // namespace mlk::local
