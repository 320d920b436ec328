// Waits for the end of runs, for `mlk submit --wait`, `mlk submit --follow`, `mlk wait` and `mlk logs -f`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/read/log_follower.h"
#include "cli/util/error.h"

namespace mlk {

struct Session;

namespace kube {
class Client;
}

struct AwaitOptions {
  bool follow = false;          // print the logs of all ranks
  bool logs_to_stdout = false;  // print these logs to stdout instead of stderr
  LogFilter filter;
  // After `timeout` the wait ends with timed_out, but the runs continue. If a run has not started within
  // `start_timeout`, the wait for it ends with cannot_start.
  std::optional<std::chrono::seconds> timeout;
  std::optional<std::chrono::seconds> start_timeout;
};

// Blocks until each run has ended, is stopped or cannot start. Writes the final records of the runs, and
// reports on stderr. Returns the code of the first of `runs` that did not end well. If the user interrupts
// mlk, the runs continue, and a message names the command that waits again. Throws Error.
ExitCode await_runs(Session& session, kube::Client& client, const std::vector<std::string>& runs,
                    const AwaitOptions& options);

// The duration in the value of a flag; nullopt for "". Throws Error{usage}, which names the flag.
std::optional<std::chrono::seconds> duration_option(const std::string& flag, const std::string& text);

}  // namespace mlk
