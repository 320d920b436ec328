// Follows the logs of a sweep's trials as their pods come and go.
#pragma once

#include <optional>
#include <string>

#include "cli/run/read/log_follower.h"
#include "cli/util/error.h"

namespace mlk {

struct Session;

namespace kube {
class Client;
}

// Prints the log lines of all trials, or of `trial`, on standard output until the sweep or the trial has
// ended or is stopped. Each line begins with "trial/7", or with "7/worker/0" if the trials are runs of their
// own. mlk follows at most 50 logs at a time, and follows another log when one of these has ended. Returns
// the exit code for the end of the sweep or of the trial. If the user interrupts mlk, the sweep continues,
// and a message names the command that follows it again. Throws Error.
ExitCode follow_sweep(Session& session, kube::Client& client, const std::string& sweep,
                      std::optional<int> trial, const LogFilter& filter);

// Prints the present content of the logs of the sweep's trials.
void print_sweep_logs(Session& session, kube::Client& client, const std::string& sweep,
                      const LogFilter& filter);

}  // namespace mlk
