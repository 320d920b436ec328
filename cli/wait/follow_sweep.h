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

// Prints the lines of all trials, or of one, on standard output, until the sweep or the trial has ended or is
// stopped: "trial/7 ...", or for trials that are runs "7/worker/0 ...". mlk follows at most 50 logs at a
// time, and follows a further log when one of these has ended. Returns the exit code for the end of the
// sweep. If interrupted, the sweep continues, and the message says how to come back. Throws Error.
ExitCode follow_sweep(Session& session, kube::Client& client, const std::string& sweep,
                      std::optional<int> trial, const LogFilter& filter);

// Prints the present content of the logs of the sweep's trials.
void print_sweep_logs(Session& session, kube::Client& client, const std::string& sweep,
                      const LogFilter& filter);

}  // namespace mlk
