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
// stopped: "trial/7 ...", or for trials that are runs "7/worker/0 ...". At most 50 logs are followed at a
// time; other logs are followed when these have ended. Returns the exit code for the end of the sweep. If
// interrupted, the sweep continues, and the message says how to come back. Throws Error.
ExitCode follow_sweep(Session& session, kube::Client& client, const std::string& sweep,
                      std::optional<int> trial, const LogFilter& filter);

// Prints everything that the logs of the sweep's trials hold now.
void print_sweep_logs(Session& session, kube::Client& client, const std::string& sweep,
                      const LogFilter& filter);

}  // namespace mlk
