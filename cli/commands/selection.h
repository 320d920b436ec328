// Which runs and trials a command is for: those that are named, and those for which --where holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/run/find.h"

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

// --where and --yes.
void add_where_options(CLI::App& command, Selection& selection);

// The runs, sweeps and trials for which `where` holds: of all runs and sweeps of the namespace, or of those
// that are named: of a sweep its trials, of an experiment its runs. Newest first; trials by number. Throws
// Error.
std::vector<RunAddress> select_targets(Session& session, kube::Client& client, const Selection& selection);

// Says what would become of `targets`, and asks, unless --yes was said: whether to do it. `doing` is "stop",
// "delete"... Without anything to do it says so, and the answer is no. Throws Error{usage} when nobody can be
// asked.
bool may_do(Session& session, const std::string& doing, const std::vector<RunAddress>& targets,
            const Selection& selection);

// "digits-abcde", of a trial "digits-abcde/7".
std::string name_of(const RunAddress& address);

// The numbers of the trials among `targets`, by their sweeps.
std::map<std::string, std::vector<int>> trials_by_sweep(const std::vector<RunAddress>& targets);

}  // namespace mlk
