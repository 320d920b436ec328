// Runs in forms for people.
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/run/state/status.h"
#include "cli/ui/style.h"

namespace mlk {

struct Session;

ui::Color color_of(Phase phase);

// "took 5m3s", or "since 5m3s" for a run or sweep that has not ended; empty before the start.
std::string took(const std::optional<Time>& started, const std::optional<Time>& ended, Time now);

// The first digits of a commit, as its short name for people: "0123456789ab-dirty".
std::string short_commit(const std::string& commit);

enum class Columns { usual, all };  // all: also the tags, and the values that differ between runs of one name

// A column that the user has chosen, in place of the leading metric: one cell for each run.
struct ChosenColumn {
  std::string header;
  std::vector<std::string> cells;
};

// Print what `mlk status` and `mlk ls` show, on the session's standard output.
void print_status(const RunStatus& status, Session& session, const Me& me);
void print_runs(const std::vector<RunStatus>& runs, Session& session, Columns columns,
                const std::vector<ChosenColumn>& chosen = {});

// Print what `mlk status` and `mlk ls` show, on any stream. `width`: the columns of the terminal. 0 means a
// pipe, where nothing is cut off or folded. `owner`: the user who submitted the run, if this should be said.
void print_status(const RunStatus& status, std::ostream& out, const ui::Style& style, std::size_t width,
                  Time now, const std::string& owner = "");
void print_runs(const std::vector<RunStatus>& runs, std::ostream& out, const ui::Style& style,
                std::size_t width, Time now, Columns columns = Columns::usual,
                const std::vector<ChosenColumn>& chosen = {});

// "Running  step 420/2000  loss 0.31  2 workers 1 server  restarts 1  worker/1: ..."
std::string progress_line(const RunStatus& status);
// Only the phase and the reason, since these change so seldom that each change can be a line of a log.
std::string phase_line(const RunStatus& status);
// The line without the time until the next retry, so that two lines differ only if something has changed.
std::string untimed(std::string phase_line);

}  // namespace mlk
