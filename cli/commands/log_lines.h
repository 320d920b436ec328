// Prints lines of a run's log.
#pragma once

#include <ostream>
#include <string>

#include "cli/run/log_follower.h"
#include "cli/ui/style.h"

namespace mlk {

struct Session;

namespace kube {
class Client;
}

// Prints "worker/0 text", the prefix in the rank's colour. Control characters in the text are made harmless;
// colours stay if colours are on.
void print_log_line(const RunLogLine& line, std::ostream& out, const ui::Style& style);

// For those who read logs: prints what is there before a wait. False: nobody reads it any more, or the user
// does not want more.
bool may_read_on(Session& session);
void require_all_printed(Session& session);  // throws OutputFailed, or Error{interrupted}

// Prints everything that the logs hold now, on standard output.
void print_logs(Session& session, kube::Client& client, const std::string& run, const LogFilter& filter);

}  // namespace mlk
