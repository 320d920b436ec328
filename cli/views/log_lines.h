// Prints lines of a run's log.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "cli/run/read/log_reader.h"
#include "cli/ui/style.h"

namespace mlk {

struct Session;

// Prints "worker/0 text". For a container beside the container of the program, prints "worker/0/fetch text".
// The prefix has the colour of the rank. Control characters in the text are made harmless. The colours of the
// text stay if `style` has colours.
void print_log_line(const RunLogLine& line, std::ostream& out, const ui::Style& style);

// Throws Error{usage} if no pod has a container of this name. Does nothing if `pods` or `container` is empty.
void require_container(const std::string& run, const std::vector<nlohmann::json>& pods,
                       const std::string& container);

// Returns a LogTaker that prints each line of the logs on standard output as soon as mlk has read the line.
// `name` may change the role and rank with which a line is printed. The reading stops when the reader of the
// output has closed the output, or when the user interrupts mlk.
LogTaker printing_taker(Session& session, std::function<void(RunLogLine&)> name);
// Call after the logs were read. Throws OutputFailed if mlk could not write the output, and
// Error{interrupted} if the user has interrupted mlk.
void require_all_printed(Session& session);

// Prints the present content of the logs on standard output.
void print_logs(Session& session, kube::Client& client, const std::string& run, const LogFilter& filter);

}  // namespace mlk
