#include "cli/select/selection.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/session/session.h"
#include "cli/util/text.h"
#include "cli/where/expression.h"
#include "sweeps/read/fetch.h"
#include "sweeps/results/rows.h"
#include "sweeps/results/select.h"
#include "sweeps/trials/sweep_row.h"

namespace mlk {
namespace {

std::vector<RunAddress> runs_that_match(kube::Client& client, RunFilter filter, const std::string& only,
                                        const std::string& where, const Me& me) {
  filter.configured = true;
  const Time now = std::chrono::system_clock::now();
  std::vector<RunStatus> runs = sweeps::list_runs_and_sweeps(client, client.config().name_space, now, filter);
  if (!only.empty()) std::erase_if(runs, [&](const RunStatus& run) { return run.run != only; });
  std::vector<RunAddress> out;
  for (const RunStatus& run : sweeps::select_runs(runs, now, where, me))
    out.push_back({run.run, run.mode == sweeps::mode_of_sweeps, {}, run.created, run.submitter});
  return out;
}

std::vector<RunAddress> trials_that_match(kube::Client& client, const RunAddress& sweep,
                                          const std::string& where) {
  const sweeps::SweepStatus status =
      sweeps::read_sweep(client, client.config().name_space, sweep.run, sweeps::Harvest::all);
  std::vector<RunAddress> out;
  for (const sweeps::Trial& trial : sweeps::select(status.trials, status.record.space, where))
    out.push_back({sweep.run, true, trial.number, status.created, sweep.submitter});
  return out;
}

// The runs, sweeps and trials that match `where`. If the command line has no names, all runs and sweeps of
// the namespace are searched. The name of a sweep stands for its trials. The name of an experiment stands for
// its runs and sweeps; but if the newest of these is a sweep, the name stands for the trials of this sweep.
// The newest runs are first, and trials are in the order of their numbers.
std::vector<RunAddress> select_targets(Session& session, kube::Client& client, const Selection& selection) {
  if (selection.names.empty()) return runs_that_match(client, {}, "", selection.where, session.me(client));
  std::vector<RunAddress> out;
  for (const std::string& typed : selection.names) {
    const RunAddress address = session.find_run(client, typed);
    if (address.trial)
      throw Error(ExitCode::usage, "'" + typed + "' is one trial, and --where is for several",
                  "name the sweep: " + address.run);
    const bool exact = typed == address.run;
    std::vector<RunAddress> found =
        address.is_sweep ? trials_that_match(client, address, selection.where)
                         : runs_that_match(client, {.name = exact ? "" : typed}, exact ? typed : "",
                                           selection.where, session.me(client));
    for (RunAddress& each : found) add_once(out, std::move(each));
  }
  return out;
}

// Prints what would happen to `targets`, and asks for confirmation if --yes is missing. Returns whether the
// command may continue. If `targets` is empty, reports this and returns false.
bool may_do(Session& session, const std::string& doing, const std::vector<RunAddress>& targets,
            const Selection& selection, const Me& me) {
  constexpr std::size_t most_named = 20;
  if (targets.empty()) {
    session.note("nothing to " + doing + ": no run or trial matches " + selection.where);
    return false;
  }
  std::vector<std::string> names;
  for (const RunAddress& target : targets) {
    if (names.size() == most_named) break;
    std::string remarks = target.is_sweep && !target.trial ? "a sweep" : "";
    if (is_of_another(target.submitter, me))
      remarks += (remarks.empty() ? "of " : " of ") + called(target.submitter, me);
    names.push_back(name_of(target) + (remarks.empty() ? "" : " (" + remarks + ")"));
  }
  if (targets.size() > names.size())
    names.push_back(fmt::format("and {} more", targets.size() - names.size()));
  const std::string what = fmt::format("{} {}: {}", doing, targets.size(), join(names, ", "));
  if (selection.yes) {
    session.note(what);
    return true;
  }
  if (session.is_agreed(what)) return true;
  session.note("nothing was changed");
  return false;
}

// Removes runs and trials from `targets` if they do not match the expression any more, or if a new run of the
// same name has replaced them. Reports each of these.
void retain_matching(Session& session, kube::Client& client, const Selection& selection,
                     std::vector<RunAddress>& targets) {
  std::map<std::string, std::optional<Time>> now;
  for (const RunAddress& address : select_targets(session, client, selection))
    now[name_of(address)] = address.created;
  std::erase_if(targets, [&](const RunAddress& target) {
    const auto found = now.find(name_of(target));
    if (found != now.end() && found->second == target.created) return false;
    session.note(name_of(target) + " stays: " +
                 (found == now.end() ? selection.where + " does not hold any more"
                                     : "it was deleted meanwhile, and another one has its name"));
    return true;
  });
}

}  // namespace

void add_where(CLI::App& command, std::string& where, const std::string& description) {
  const auto parsed = [](const std::string& text) {
    sweeps::parse_expression(text, "--where");
    return std::string();
  };
  command.add_option("--where", where, description)->type_name("EXPRESSION")->check(parsed);
}

void add_where_options(CLI::App& command, Selection& selection) {
  add_where(command, selection.where,
            "Those for which this holds: 'phase==Failed && age>1h'; of a sweep its trials");
  command.add_flag("--yes", selection.yes, "Do not ask, neither with --where nor for runs of others");
}

void require_selection(const Selection& selection, const std::string& doing, const std::string& example) {
  if (!selection.where.empty()) return;
  if (selection.names.empty())
    throw Error(ExitCode::usage, "a run is required",
                "name it, or say which: mlk " + doing + " --where '" + example + "'");
}

std::vector<RunAddress> agreed_targets(Session& session, kube::Client& client, const Selection& selection,
                                       const std::string& doing) {
  std::vector<RunAddress> targets = select_targets(session, client, selection);
  if (!may_do(session, doing, targets, selection, session.me(client))) return {};
  retain_matching(session, client, selection, targets);
  return targets;
}

bool may_change(Session& session, kube::Client& client, const std::vector<Subject>& subjects,
                const std::string& doing, bool yes) {
  const Me& me = session.me(client);
  std::vector<std::string> of_others;
  for (const Subject& subject : subjects) {
    if (is_of_another(subject.submitter, me))
      of_others.push_back(subject.name + " of " + called(subject.submitter, me));
  }
  if (yes || of_others.empty()) return true;
  if (session.is_agreed(doing + " " + join(of_others, ", ") + ", which you did not submit")) return true;
  session.note("nothing was changed");
  return false;
}

std::vector<RunAddress> targets_to_change(Session& session, kube::Client& client, const Selection& selection,
                                          const std::string& doing) {
  if (!selection.where.empty()) return agreed_targets(session, client, selection, doing);
  std::vector<RunAddress> targets;
  std::vector<Subject> subjects;
  for (const std::string& name : selection.names) {
    add_once(targets, session.find_run(client, name));
  }
  for (const RunAddress& target : targets) subjects.push_back({name_of(target), target.submitter});
  if (!may_change(session, client, subjects, doing, selection.yes)) return {};
  return targets;
}

void add_once(std::vector<RunAddress>& to, RunAddress address) {
  const bool known = std::any_of(to.begin(), to.end(),
                                 [&](const RunAddress& other) { return name_of(other) == name_of(address); });
  if (!known) to.push_back(std::move(address));
}

std::string name_of(const RunAddress& address) {
  return address.trial ? fmt::format("{}/{}", address.run, *address.trial) : address.run;
}

std::map<std::string, std::vector<int>> trials_by_sweep(const std::vector<RunAddress>& targets) {
  std::map<std::string, std::vector<int>> out;
  for (const RunAddress& target : targets) {
    if (target.trial) out[target.run].push_back(*target.trial);
  }
  return out;
}

}  // namespace mlk
