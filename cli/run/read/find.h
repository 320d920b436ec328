// Finds runs on the cluster: the run that a name means, one run with its objects, or all runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/facts/submitter.h"
#include "cli/run/state/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

struct RunFilter {
  // The name of a sweep selects its trials that are runs of their own. Empty: all runs, but no trials.
  std::string sweep{};
  std::string name{};       // the name of the experiment; empty: any
  std::string tag{};        // KEY or KEY=VALUE; empty: any
  bool configured = false;  // also fill RunStatus::experiment of each run, which takes longer
};

// Reads everything of one run: makes four requests in parallel, one more request for the pods if a Job ended
// meanwhile, and the requests of confirm_absences() and SideReads. Throws Error{not_found} if there is no
// owner.
RunObjects fetch_run(kube::Client& client, const std::string& name_space, const std::string& run);

// As fetch_run(), with the newest metrics line of the reporting rank if its log can be read.
RunObjects fetch_run_with_lines(kube::Client& client, const std::string& name_space, const std::string& run);

// Throws Error{usage} for an empty name, which usually comes from a shell variable that was never set.
void require_run_name(const std::string& typed);

struct RunAddress {
  std::string run;  // the full name of the run or sweep
  bool is_sweep = false;
  std::optional<int> trial;       // 7 for digits-abcde/7; nullopt if no trial was named
  std::optional<Time> created{};  // set by --where: distinguishes the run from a later run of this name
  Submitter submitter{};
};

// Finds what `typed` names: the run or sweep of this name, or else the newest run or sweep of the experiment
// of this name, runs of other users only if there is none of mine. NAME/NUMBER names a trial of a sweep.
// Throws Error{not_found} with the nearest name as a hint, and Error{usage} for a trial of a run that is not
// a sweep. `prefer`: if the experiment has runs and sweeps, Prefer::sweeps chooses the newest sweep, even if
// a run is newer (usually a run that repeats the sweep's best trial). For NAME/NUMBER, sweeps are always
// preferred. `me` is called after the runs were listed; empty: no run is another's.
enum class Prefer { newest, sweeps };
RunAddress find_run(kube::Client& client, const std::string& name_space, const std::string& typed,
                    Prefer prefer = Prefer::newest, const std::function<Me()>& me = {});

// All runs of the namespace, newest first. For any number of runs, makes three requests in parallel, and the
// requests of confirm_absences(), read_tails() and SideReads. Reads the events about Jobs if a Job lacks
// pods. Of the events about pods, reads only those about silent nodes. So if the pods of a run wait, its
// `why` may say less than after fetch_run(). `of_sweep` makes the row of a sweep from its owner and Jobs,
// without its trials.
using SweepRow = std::function<RunStatus(const RunObjects&)>;
std::vector<RunStatus> list_runs(kube::Client& client, const std::string& name_space, Time now,
                                 const RunFilter& filter = {}, const SweepRow& of_sweep = {});
// Only the names of the runs that list_runs() returns: one request.
std::vector<std::string> list_names(kube::Client& client, const std::string& name_space,
                                    const RunFilter& filter = {});

// Whether a Job has ended but one of its pods has not: then the pods were read before the Jobs.
bool pods_are_older(const RunObjects& objects);

// The pure part of find_run, on the owners' metadata.
RunAddress choose_run(const std::vector<nlohmann::json>& owners, const std::string& name_space,
                      const std::string& typed, Prefer prefer = Prefer::newest, const Me& me = {});

// The pure parts of list_runs. group_by_run() leaves out Jobs and pods whose owner is not among `owners`.
std::vector<RunObjects> group_by_run(std::vector<nlohmann::json> owners, std::vector<nlohmann::json> jobs,
                                     std::vector<nlohmann::json> pods);
std::vector<RunStatus> observe_all(const std::vector<RunObjects>& runs, Time now,
                                   const SweepRow& of_sweep = {});
// Whether the owner has the tag. KEY=VALUE matches only this tag; KEY also matches tags that begin with
// "KEY=".
bool has_tag(const nlohmann::json& owner, const std::string& tag);

}  // namespace mlk
