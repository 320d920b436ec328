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

// Adds --where and --yes.
void add_where_options(CLI::App& command, Selection& selection);

// Throws Error{usage} if the command line has neither names nor --where, or if it has --yes without --where.
// `doing` is "stop", "delete"..., and `example` is an expression for the hint.
void require_selection(const Selection& selection, const std::string& doing, const std::string& example);

// The runs, sweeps and trials that match `where`. If the command line has no names, all runs and sweeps of
// the namespace are searched. The name of a sweep stands for its trials. The name of an experiment stands for
// its runs and sweeps; but if the newest of these is a sweep, for the trials of this sweep. The newest runs
// are first, and trials are in the order of their numbers. Throws Error.
std::vector<RunAddress> select_targets(Session& session, kube::Client& client, const Selection& selection);

// Prints what would happen to `targets`, and asks for confirmation if --yes is missing. Returns whether the
// command may continue. `doing` is "stop", "delete"... If `targets` is empty, reports this and returns false.
// Throws Error{usage} if there is no terminal to ask on.
bool may_do(Session& session, const std::string& doing, const std::vector<RunAddress>& targets,
            const Selection& selection);

// Adds the address if `to` does not have it yet. A user may name the same run twice: by the name of the run
// and by the name of its experiment.
void add_once(std::vector<RunAddress>& to, RunAddress address);

// "digits-abcde", or "digits-abcde/7" for a trial.
std::string name_of(const RunAddress& address);

// The numbers of the trials among `targets`, by sweep.
std::map<std::string, std::vector<int>> trials_by_sweep(const std::vector<RunAddress>& targets);

// Call after the user has confirmed the selection. Removes from `targets` the runs and trials that do not
// match the expression any more, or that a new run of the same name has replaced. Reports each of these.
void retain_matching(Session& session, kube::Client& client, const Selection& selection,
                     std::vector<RunAddress>& targets);

}  // namespace mlk
