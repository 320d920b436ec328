#include "cli/run/read/find.h"

#include <algorithm>
#include <future>
#include <map>
#include <tuple>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/facts.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/node_loss.h"
#include "cli/run/facts/order.h"
#include "cli/run/facts/owner.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/read/confirm_absences.h"
#include "cli/run/read/side_reads.h"
#include "cli/run/read/tails.h"
#include "cli/run/state/ranks.h"
#include "cli/util/json_path.h"
#include "cli/util/number.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;

std::future<std::vector<json>> list_aside(kube::Client& client, const kube::Resource& resource,
                                          const std::string& name_space, kube::ListOptions options) {
  return std::async(std::launch::async, [&client, &resource, &name_space, options = std::move(options)] {
    return client.list(resource, name_space, options).items;
  });
}

// The events that match this field selector; empty if the user may not list events.
std::vector<json> list_events(kube::Client& client, const std::string& name_space,
                              const std::string& field_selector) {
  try {
    return client.list(kube::resources::events, name_space, {.field_selector = field_selector}).items;
  } catch (const kube::ApiError& error) {
    if (error.status() != 403) throw;  // a run can be read without its events, but RunStatus::why says less
    return {};
  }
}

kube::ListOptions by_label(std::string selector, bool metadata_only = false) {
  return {.label_selector = std::move(selector), .metadata_only = metadata_only};
}

}  // namespace

RunObjects fetch_run(kube::Client& client, const std::string& name_space, const std::string& run) {
  using namespace kube::resources;
  const std::string selector = std::string(labels::run) + "=" + run;
  auto list_of_jobs = list_aside(client, jobs, name_space, by_label(selector));
  auto list_of_pods = list_aside(client, pods, name_space, by_label(selector));
  auto list_of_events =
      std::async(std::launch::async, list_events, std::ref(client), std::cref(name_space), "type!=Normal");
  RunObjects objects;
  const std::optional<json> owner = client.find(config_maps, name_space, run);
  objects.jobs = list_of_jobs.get();
  objects.pods = list_of_pods.get();
  if (pods_are_older(objects)) objects.pods = client.list(pods, name_space, by_label(selector)).items;
  objects.events = list_of_events.get();
  if (!owner)
    throw Error(ExitCode::not_found, "there is no run '" + run + "' in namespace '" + name_space + "'",
                "list them with: mlk ls");
  objects.owner = *owner;
  if (!confirm_absences(client, name_space, {&objects.owner}, objects.jobs).empty())
    objects.pods = client.list(pods, name_space, by_label(selector)).items;
  std::erase_if(objects.events, [&](const json& event) {
    return !text_of(event, {"involvedObject", "name"}).starts_with(run);
  });
  SideReads(client, name_space, SideReads::Scope::one_run).wait({&objects});
  return objects;
}

bool pods_are_older(const RunObjects& objects) {
  const Facts facts = read_facts(objects);
  return std::any_of(facts.pods.begin(), facts.pods.end(), [&](const PodFacts& pod) {
    return !pod.ended() && std::any_of(facts.jobs.begin(), facts.jobs.end(), [&](const JobFacts& job) {
      return job.name == pod.job && job.finished;
    });
  });
}

RunAddress choose_run(const std::vector<json>& owners, const std::string& name_space,
                      const std::string& typed, Prefer prefer, const Me& me) {
  const std::size_t slash = typed.find('/');
  const std::string name = typed.substr(0, slash);
  const json* found = nullptr;
  std::vector<std::string> names;
  const bool sweeps_first = prefer == Prefer::sweeps || slash != std::string::npos;
  const auto key = [&](const json& owner) {
    return std::tuple(!is_of_another(submitter_of(owner), me), sweeps_first && is_sweep(owner),
                      age_of(owner));
  };
  for (const json& owner : owners) {
    if (!is_owner(owner)) continue;
    // A sweep and its trials all have the name of the experiment, and the trials are newer. But this name
    // means the sweep.
    const bool trial = is_trial(owner);
    if (!trial) names.insert(names.end(), {kube::name_of(owner), kube::label_of(owner, labels::name)});
    const bool exact = kube::name_of(owner) == name;
    const bool of_name = !trial && kube::label_of(owner, labels::name) == name;
    if (exact || (of_name && (!found || key(*found) < key(owner)))) found = &owner;
    if (exact) break;
  }
  if (found == nullptr) {
    const std::string near = nearest(name, names);
    throw Error(ExitCode::not_found,
                "there is no run '" + printable(typed) + "' in namespace '" + name_space + "'",
                near.empty() ? "" : "did you mean '" + near + "'?");
  }
  RunAddress address{.run = kube::name_of(*found), .is_sweep = is_sweep(*found), .trial = {}};
  address.submitter = submitter_of(*found);
  if (slash == std::string::npos) return address;
  const int trial = parse_int(std::string_view(typed).substr(slash + 1), -1);
  if (!address.is_sweep) throw Error(ExitCode::usage, address.run + " is no sweep: it has no trials");
  if (trial < 0)
    throw Error(ExitCode::not_found, "'" + printable(typed.substr(slash + 1)) + "' is no number of a trial",
                "its trials: mlk results " + address.run);
  address.trial = trial;
  return address;
}

void require_run_name(const std::string& typed) {
  if (typed.empty())
    throw Error(ExitCode::usage, "the name of the run is empty", "list the runs with: mlk ls");
}

RunAddress find_run(kube::Client& client, const std::string& name_space, const std::string& typed,
                    Prefer prefer, const std::function<Me()>& me) {
  require_run_name(typed);
  const std::vector<json> owners =
      client.list(kube::resources::config_maps, name_space, by_label(labels::run, true)).items;
  return choose_run(owners, name_space, typed, prefer, me ? me() : Me{});
}

std::vector<RunObjects> group_by_run(std::vector<json> owners, std::vector<json> jobs,
                                     std::vector<json> pods) {
  std::map<std::string, RunObjects> runs;
  for (json& owner : owners) {
    if (!is_owner(owner)) continue;
    const std::string name = kube::name_of(owner);  // a copy: the assignment would move `owner` first
    runs[name].owner = std::move(owner);
  }
  std::erase_if(jobs, is_driver);
  std::erase_if(pods, is_driver);
  // Jobs and pods whose owner is gone do not form a run.
  for (json& job : jobs) {
    const std::string of_run = kube::label_of(job, labels::run),
                      of_sweep = kube::label_of(job, labels::sweep);
    if (const auto sweep = runs.find(of_sweep); sweep != runs.end() && of_sweep != of_run)
      sweep->second.jobs.push_back(job);
    if (const auto run = runs.find(of_run); run != runs.end()) run->second.jobs.push_back(std::move(job));
  }
  for (json& pod : pods) {
    if (const auto run = runs.find(kube::label_of(pod, labels::run)); run != runs.end())
      run->second.pods.push_back(std::move(pod));
  }
  std::vector<RunObjects> grouped;
  for (auto& [name, objects] : runs) grouped.push_back(std::move(objects));
  return grouped;
}

std::vector<RunStatus> observe_all(const std::vector<RunObjects>& runs, Time now, const SweepRow& of_sweep) {
  std::vector<std::pair<RunAge, const RunObjects*>> newest_first;
  for (const RunObjects& objects : runs) newest_first.emplace_back(age_of(objects.owner), &objects);
  std::ranges::sort(newest_first, [](const auto& a, const auto& b) { return b.first < a.first; });
  std::vector<RunStatus> statuses;
  for (const auto& [age, objects] : newest_first) {
    const bool sweep = of_sweep && is_sweep(objects->owner);
    statuses.push_back(sweep ? of_sweep(*objects) : observe(*objects, now));
  }
  return statuses;
}

bool has_tag(const json& owner, const std::string& tag) {
  const std::vector<std::string> tags = tags_of(owner);
  return std::any_of(tags.begin(), tags.end(), [&](const std::string& own) {
    return own == tag || (tag.find('=') == std::string::npos && own.starts_with(tag + "="));
  });
}

namespace {

std::string selector_of(const RunFilter& filter) {
  std::string selector = labels::run;
  // The server would reject a selector with a text that cannot be a name. No run has such a name.
  if (is_label(filter.name)) selector += std::string(",") + labels::name + "=" + filter.name;
  return selector;
}

std::vector<json> list_owners(kube::Client& client, const std::string& name_space, const RunFilter& filter) {
  const std::string selector = selector_of(filter);
  const kube::Resource& config_maps = kube::resources::config_maps;
  // Only owners have the label `mode`. The other ConfigMaps hold the files of runs, which would be much data.
  std::vector<json> owners =
      filter.configured ? client.list(config_maps, name_space, by_label(selector + "," + labels::mode)).items
                        : client.list(config_maps, name_space, by_label(selector, true)).items;
  std::erase_if(owners, [&](const json& owner) {
    const std::string sweep = is_sweep(owner) ? "" : kube::label_of(owner, labels::sweep);
    return sweep != filter.sweep ||
           (!filter.name.empty() && kube::label_of(owner, labels::name) != filter.name) ||
           (!filter.tag.empty() && !has_tag(owner, filter.tag));
  });
  return owners;
}

// If the node of a pod is in doubt and mlk could not read the Node object, reads the events that report a
// silent node. To list runs, mlk reads no other events of pods.
void read_node_events(kube::Client& client, const std::string& name_space,
                      const std::vector<RunObjects*>& runs, Time now) {
  const auto in_doubt = [&](const RunObjects* run) {
    return std::any_of(run->pods.begin(), run->pods.end(), [&](const json& pod) {
      const LossSigns signs = signs_of_pod(pod, now);
      const bool marked = signs.not_ready && signs.containers_ready && !signs.waits_for_gates;
      return is_doubtful(signs) && marked && run->nodes.count(text_of(pod, {"spec", "nodeName"})) == 0;
    });
  };
  if (std::none_of(runs.begin(), runs.end(), in_doubt)) return;
  const std::vector<json> events = list_events(client, name_space, "reason=NodeNotReady");
  for (RunObjects* run : runs) run->events.insert(run->events.end(), events.begin(), events.end());
}

// Whether ranks lack pods that they should have. If the cluster refuses these pods, because of a quota for
// example, only a warning about the Job gives the reason.
bool lacks_pods(const RunObjects& run) {
  const Facts facts = read_facts(run);
  const std::vector<Rank> ranks = collect_ranks(facts);
  return std::any_of(facts.jobs.begin(), facts.jobs.end(), [&](const JobFacts& job) {
    if (job.finished || job.suspended || job.deleting || job.run_over) return false;
    int left = 0, with_pod = 0;
    for (const Rank& rank : ranks) {
      const bool over = job.completed.contains(rank.number) || job.failed_ranks.contains(rank.number);
      if (rank.job != &job || over) continue;
      ++left;
      if (!rank.pods.empty()) ++with_pod;
    }
    return with_pod < std::min(left, job.parallelism);
  });
}

// Lists warnings only if a run lacks pods, since the server reads every event of the namespace for such a
// list.
void add_warnings_of_jobs(kube::Client& client, const std::string& name_space,
                          std::vector<RunObjects>& runs) {
  std::vector<RunObjects*> lacking;
  for (RunObjects& run : runs) {
    if (!is_sweep(run.owner) && lacks_pods(run)) lacking.push_back(&run);
  }
  if (lacking.empty()) return;
  for (const json& event : list_events(client, name_space, "type!=Normal,involvedObject.kind=Job")) {
    const std::string about = text_of(event, {"involvedObject", "uid"});
    for (RunObjects* run : lacking) {
      if (std::any_of(run->jobs.begin(), run->jobs.end(),
                      [&](const json& job) { return kube::uid_of(job) == about; }))
        run->events.push_back(event);
    }
  }
}

}  // namespace

std::vector<std::string> list_names(kube::Client& client, const std::string& name_space,
                                    const RunFilter& filter) {
  std::vector<RunObjects> runs = group_by_run(list_owners(client, name_space, filter), {}, {});
  std::vector<std::string> names;
  for (const RunStatus& run : observe_all(runs, {})) names.push_back(run.run);
  return names;
}

std::vector<RunStatus> list_runs(kube::Client& client, const std::string& name_space, Time now,
                                 const RunFilter& filter, const SweepRow& of_sweep) {
  using namespace kube::resources;
  const std::string selector = selector_of(filter);
  auto list_of_jobs = list_aside(client, jobs, name_space, by_label(selector));
  // Without filter.sweep, leaves out the pods of all sweeps, since there may be thousands.
  const std::string which = (filter.sweep.empty() ? "!" : "") + std::string(labels::sweep) +
                            (filter.sweep.empty() ? "" : "=" + filter.sweep);
  auto list_of_pods = list_aside(client, pods, name_space, by_label(selector + "," + which));
  std::vector<json> owners = list_owners(client, name_space, filter);
  std::vector<json> all_jobs = list_of_jobs.get();
  std::vector<json*> all_owners;
  for (json& owner : owners) all_owners.push_back(&owner);
  confirm_absences(client, name_space, all_owners, all_jobs);
  std::vector<RunObjects> runs = group_by_run(std::move(owners), std::move(all_jobs), list_of_pods.get());
  std::vector<RunObjects*> all;
  for (RunObjects& run : runs) all.push_back(&run);
  add_warnings_of_jobs(client, name_space, runs);
  read_tails(client, name_space, all);
  SideReads(client, name_space, SideReads::Scope::runs).wait(all);
  read_node_events(client, name_space, all, now);
  return observe_all(runs, now, of_sweep);
}

RunObjects fetch_run_with_lines(kube::Client& client, const std::string& name_space, const std::string& run) {
  RunObjects objects = fetch_run(client, name_space, run);
  read_tails(client, name_space, {&objects});
  return objects;
}

}  // namespace mlk
