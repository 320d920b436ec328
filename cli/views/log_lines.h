// Prints lines of a run's log.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "cli/run/read/log_reader.h"
#include "cli/ui/style.h"

namespace mlk {

struct Session;

namespace kube {
class Client;
}

// Prints "worker/0 text", or "worker/0/fetch text" for another container than the program's, the prefix in
// the rank's colour. Control characters in the text are made harmless. Colours in the text stay if colours
// are on.
void print_log_line(const RunLogLine& line, std::ostream& out, const ui::Style& style);

// Throws Error{usage} if there is at least one pod, the name is not empty, and no pod has a container of this
// name.
void require_container(const std::string& run, const std::vector<nlohmann::json>& pods,
                       const std::string& container);

// Prints the lines of logs on standard output while they are read. `name` may change the rank that a line is
// printed with. Stops reading when the reader of the output has closed it, or when the user interrupts.
LogTaker printing_taker(Session& session, std::function<void(RunLogLine&)> name = {});
// Call after the reading. Throws OutputFailed if the output failed, Error{interrupted} if the user
// interrupted.
void require_all_printed(Session& session);

// Prints the present content of the logs on standard output.
void print_logs(Session& session, kube::Client& client, const std::string& run, const LogFilter& filter);

}  // namespace mlk
