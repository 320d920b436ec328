// The processes of a pod with several GPUs: one process for each GPU.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace mlk::rt {

// Returns MLK_GPUS in a process that has to start one process for each of several GPUs. Returns 1 in every
// other process, also in the started processes, which have MLK_LOCAL_RANK.
int processes_of_pod();

// How a process has ended: its exit code, or 128 plus the number of its signal. Nothing: it still runs.
using EndOfProcess = std::optional<int>;

// What the ends of its processes mean for the whole pod. Pure.
struct EndOfPod {
  bool stop_others = false;  // stop the processes that still run, as one has failed
  int code = 0;              // once all have ended: 0 if one has ended with 0 (the run is trained), otherwise
                             // `first`
};
// first: the code of the process that was the first to end with a code other than 0.
EndOfPod end_of_pod(std::span<const EndOfProcess> processes, std::optional<int> first);

// Runs `count` copies of this program, with MLK_LOCAL_RANK 0, 1, ..., and returns the exit code of the pod
// when all copies have ended. Sends the copies a SIGTERM when this process gets SIGTERM or SIGINT, when a
// copy fails before the run is trained, and two minutes after a copy has finished the run. The result of the
// pod is the result of the process that has finished the run, else of the process that failed first, else of
// the first process. Throws std::system_error if a process cannot be started; then no process is left
// running.
int run_processes(int count);

// Overwrites the content of the file in place, because the file may be a mount. Truncates the file only after
// the write: if the disk is full, the old text must stay. Returns false on an error.
bool write_over(const std::string& path, const std::string& text);

}  // namespace mlk::rt
