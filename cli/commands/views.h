// Runs as people read them.
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/run/metrics.h"
#include "cli/run/status.h"
#include "cli/ui/style.h"

namespace mlk {

struct Session;

// `mlk status` and `mlk ls` on the session's standard output.
void print_status(const RunStatus& status, Session& session);
void print_runs(const std::vector<RunStatus>& runs, Session& session);

// The same on any stream. `width`: columns of the terminal, 0 for a pipe (nothing is cut off or folded then).
void print_status(const RunStatus& status, std::ostream& out, const ui::Style& style, std::size_t width,
                  Time now);
void print_runs(const std::vector<RunStatus>& runs, std::ostream& out, const ui::Style& style,
                std::size_t width, Time now);

// "Running  step 420/2000  loss 0.31  2 workers 1 server  restarts 1  worker/1: ..." `latest`: of the log,
// where it is followed; a running container's result cannot be seen otherwise.
std::string progress_line(const RunStatus& status, const std::optional<Metrics>& latest = std::nullopt);
// Phase and reason alone: what changes seldom enough for a log.
std::string phase_line(const RunStatus& status);

}  // namespace mlk
