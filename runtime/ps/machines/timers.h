// How long the processes of a run with parameter servers wait for each other.
#pragma once

#include <chrono>

namespace mlk::rt::ps_timers {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Server 0.
inline constexpr seconds wait_message_interval{2};  // server 0 repeats `wait` to a worker that waits for work
inline constexpr seconds drain_patience{3};         // after SIGTERM, for the current step (sync)
inline constexpr seconds save_retry{2};             // between two attempts to save the last checkpoint
inline constexpr seconds last_save_patience{15};    // after SIGTERM, for attempts to save the last checkpoint
inline constexpr seconds copy_patience{5};          // for all servers to copy their parts
inline constexpr seconds seed_patience{20};         // for a round of seeds, plus the time to send them
inline constexpr double seed_bytes_per_second = 4e6;

// Every server.
inline constexpr milliseconds look_interval{100}, look_interval_while_saving{2};
inline constexpr milliseconds longest_round{20};  // a server with many messages ticks after at most this time
// How long a server waits after SIGTERM for server 0, which may still need the server's part of the last
// checkpoint. This time is shorter than the grace period of a pod.
inline constexpr seconds leave_patience{20};
inline constexpr hours first_worker_patience{24};
// A server that has found the last checkpoint waits for a worker for this time at most. If workers are
// connected, server 0 waits for missing processes for this time at most.
inline constexpr seconds trained_patience{10};

// A worker.
inline constexpr milliseconds worker_look_interval{100};
inline constexpr milliseconds cut_off_after{1000};    // then the worker reports a lost server to server 0
inline constexpr milliseconds pull_again_after{500};  // then the worker asks again for weights (sync)
inline constexpr double answer_patience_seconds =
    10;  // then the worker logs that it waits, and checks for the last checkpoint
// How long a worker checks for the last checkpoint after a finish message without a result. A client of NFS
// may show a directory as it was a minute ago (acdirmax of nfs(5)).
inline constexpr seconds last_look{65};

}  // namespace mlk::rt::ps_timers
