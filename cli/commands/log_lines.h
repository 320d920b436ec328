// Lines of a run's log as they are printed.
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

// "worker/0 text", the prefix in the rank's colour. Of the text's control characters only colours stay, and
// these where colours are on.
void print_log_line(const RunLogLine& line, std::ostream& out, const ui::Style& style);

// All that the logs hold now, on standard output.
void print_logs(Session& session, kube::Client& client, const std::string& run, const LogFilter& filter);

}  // namespace mlk
