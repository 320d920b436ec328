// Runs as people read them.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "cli/run/status.h"
#include "cli/ui/style.h"

namespace mlk {

struct Session;

enum class Columns { usual, all };  // all: also what sets the runs of one name apart

// `mlk status` and `mlk ls` on the session's standard output.
void print_status(const RunStatus& status, Session& session);
void print_runs(const std::vector<RunStatus>& runs, Session& session, Columns columns);

// The same on any stream. `width`: columns of the terminal, 0 for a pipe (nothing is cut off or folded then).
void print_status(const RunStatus& status, std::ostream& out, const ui::Style& style, std::size_t width,
                  Time now);
void print_runs(const std::vector<RunStatus>& runs, std::ostream& out, const ui::Style& style,
                std::size_t width, Time now, Columns columns = Columns::usual);

// "Running  step 420/2000  loss 0.31  2 workers 1 server  restarts 1  worker/1: ..."
std::string progress_line(const RunStatus& status);
// Phase and reason alone: what changes seldom enough for a log.
std::string phase_line(const RunStatus& status);
// The same without the time that is left until the next try: two of them differ if something has changed.
std::string untimed(std::string phase_line);

}  // namespace mlk
