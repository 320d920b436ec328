// The processes of a pod with several GPUs: one for each.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace mlk::rt {

// MLK_GPUS of a process that is to start one for each of several GPUs. 1 for every other process: also for
// those that were started so, which have MLK_LOCAL_RANK.
int processes_of_pod();

// How a process has ended: its exit code, or 128 and the number of its signal. Nothing: it still runs.
using EndOfProcess = std::optional<int>;

// What follows for the whole pod. Pure.
struct EndOfPod {
  bool stop_others = false;  // those that run, as one has failed
  int code = 0;              // once all have ended: 0 if one has ended with 0, since the run is trained then;
                             // else `first`
};
// first: the code of the process that has ended first of those that have not ended with 0.
EndOfPod end_of_pod(std::span<const EndOfProcess> processes, std::optional<int> first);

// Runs `count` copies of this program, whose MLK_LOCAL_RANK is 0, 1, ..., and returns the exit code of the
// pod when all have ended. Passes SIGTERM and SIGINT on, as SIGTERM. The result of the pod is that of the
// process that has trained the run to its end, else of the one that has failed first, else of the first.
// Throws std::system_error if a process cannot be started; then none is left.
int run_processes(int count);

// Puts the text in the place of what the file has, which may be mounted and so keeps its inode. It is cut
// only after that, since a full disk takes no new text, and must not lose the old one. False: that went
// wrong.
bool write_over(const std::string& path, const std::string& text);

}  // namespace mlk::rt
