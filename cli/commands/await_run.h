// Waiting for the end of a run, the same in submit --wait, submit --follow, wait and logs -f.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/run/log_follower.h"
#include "cli/util/error.h"

namespace mlk {

struct Session;

namespace kube {
class Client;
}

struct AwaitOptions {
  bool follow = false;          // print the logs of all ranks: to stderr,
  bool logs_to_stdout = false;  // or to stdout
  LogFilter filter;
  std::optional<std::chrono::seconds> timeout;  // ExitCode::timed_out, the run goes on
  std::optional<std::chrono::seconds>
      start_timeout;  // ExitCode::cannot_start when it was never running by then
};

// Blocks until the run has ended, is stopped or cannot start; writes its final record; says on stderr what
// happened. Interrupted, it leaves the run running and says how to come back. Throws Error.
ExitCode await_run(Session& session, kube::Client& client, const std::string& run,
                   const AwaitOptions& options);

// nullopt for "". Throws Error{usage} that names the flag.
std::optional<std::chrono::seconds> duration_option(const std::string& flag, const std::string& text);

}  // namespace mlk
