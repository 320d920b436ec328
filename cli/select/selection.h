// Selects the runs and trials that a command applies to: by name, and by --where.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/run/read/find.h"

namespace CLI {
class App;
}

namespace mlk {

struct Session;

struct Selection {
  std::vector<std::string> names;
  std::string where;
  bool yes = false;
};

// --where. A mistake in it is told while the command line is read, before anything is asked of a cluster.
void add_where(CLI::App& command, std::string& where, const std::string& description);

// --where and --yes.
void add_where_options(CLI::App& command, Selection& selection);

// Throws Error{usage} unless there are names or --where, and if there is --yes without --where. `doing` is
// "stop", "delete"..., `example` an expression for the hint.
void require_selection(const Selection& selection, const std::string& doing, const std::string& example);

// The runs, sweeps and trials that match `where`. Without names: of all runs and sweeps of the namespace. A
// named sweep stands for its trials, an experiment's name for its runs. Newest first; trials by number.
// Throws Error.
std::vector<RunAddress> select_targets(Session& session, kube::Client& client, const Selection& selection);

// Prints what would happen to `targets`, and asks whether to do it, unless --yes was given. `doing` is
// "stop", "delete"... If there are no targets, says so and returns false. Throws Error{usage} if there is no
// terminal to ask on.
bool may_do(Session& session, const std::string& doing, const std::vector<RunAddress>& targets,
            const Selection& selection);

// Adds it, unless it is there already: people may say a run twice, by its name and by its experiment's.
void add_once(std::vector<RunAddress>& to, RunAddress address);

// "digits-abcde", for a trial "digits-abcde/7".
std::string name_of(const RunAddress& address);

// The numbers of the trials among `targets`, by sweep.
std::map<std::string, std::vector<int>> trials_by_sweep(const std::vector<RunAddress>& targets);

// Once more after the question: what the expression does not hold for any more is taken out, and told.
void keep_those_that_still_match(Session& session, kube::Client& client, const Selection& selection,
                                 std::vector<RunAddress>& targets);

}  // namespace mlk
