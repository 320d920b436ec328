// The logs of a sweep's trials, followed as their pods come and go.
#pragma once

#include <optional>
#include <string>

#include "cli/run/log_follower.h"
#include "cli/util/error.h"

namespace mlk {

struct Session;

namespace kube {
class Client;
}

// Prints the lines of all trials, or of one, on standard output, until the sweep, or the trial, has ended or
// is stopped: "trial/7 ...", or of trials that are runs "7/worker/0 ...". At most 50 logs are followed at a
// time; others come when these have ended. Gives the code that tells how it ended. Interrupted, it leaves the
// sweep running and says how to come back. Throws Error.
ExitCode follow_sweep(Session& session, kube::Client& client, const std::string& sweep,
                      std::optional<int> trial, const LogFilter& filter);

// All that the logs of its trials hold now.
void print_sweep_logs(Session& session, kube::Client& client, const std::string& sweep,
                      const LogFilter& filter);

}  // namespace mlk
