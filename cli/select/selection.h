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

// Adds --where. A mistake in the expression is reported while the command line is parsed, before any request
// to a cluster.
void add_where(CLI::App& command, std::string& where, const std::string& description);

// Adds --where and --yes. Commands that change runs have --yes, since they ask before they change the run of
// another user.
void add_where_options(CLI::App& command, Selection& selection);

// Throws Error{usage} if the command line has neither names nor --where. `doing` is "stop", "delete"..., and
// `example` is an expression for the hint.
void require_selection(const Selection& selection, const std::string& doing, const std::string& example);

// The runs, sweeps and trials that match `where`, after the user has confirmed the selection. Leaves out
// those that do not match any more when the user has answered. Empty if nothing matches, or if the user
// refuses. `doing` is "stop", "delete"... Throws Error; it is Error{usage} if there is no terminal to ask on.
std::vector<RunAddress> agreed_targets(Session& session, kube::Client& client, const Selection& selection,
                                       const std::string& doing);

// The runs, sweeps and trials of the command line: those that it names, or agreed_targets(). Looks up all
// names first, so that one wrong name leaves every run unchanged. Then asks as in may_change(). Empty if
// there is nothing to do.
std::vector<RunAddress> targets_to_change(Session& session, kube::Client& client, const Selection& selection,
                                          const std::string& doing);

// A run, sweep or trial that a command is about to change.
struct Subject {
  std::string name;
  Submitter submitter;
};

// Whether the command may change these. Asks for a confirmation if another user submitted some of them,
// except with --yes. If the user refuses, reports that nothing was changed. `doing` is "stop", "delete"...
// Throws Error{usage} if there is no terminal to ask on.
bool may_change(Session& session, kube::Client& client, const std::vector<Subject>& subjects,
                const std::string& doing, bool yes);

// Adds the address if `to` does not have it yet. A user may name the same run twice: by the name of the run
// and by the name of its experiment.
void add_once(std::vector<RunAddress>& to, RunAddress address);

// "digits-abcde", or "digits-abcde/7" for a trial.
std::string name_of(const RunAddress& address);

// The numbers of the trials among `targets`, by sweep.
std::map<std::string, std::vector<int>> trials_by_sweep(const std::vector<RunAddress>& targets);

}  // namespace mlk
