// mlk delete: removes runs with everything that belongs to them. The cluster's garbage collector does the
// work, so it continues without mlk. Deleting a run that does not exist is not an error.

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include <CLI/CLI.hpp>

#include "cli/wait/await_run.h"
#include "cli/commands/commands.h"
#include "cli/commands/control_sweep.h"
#include "cli/commands/selection.h"
#include "cli/session/session.h"
#include "cli/kube/objects.h"
#include "cli/run/read/find.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/change/ownerless.h"
#include "cli/run/state/record.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "cli/util/time.h"

namespace mlk {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

struct DeleteOptions {
  Selection selection;
  bool no_wait = false;
  std::string timeout;
};

// The owner of the run that the user means. A bare name is accepted only if it has one run: otherwise
// deleting "the newest" twice would delete two.
std::optional<json> find_owner(kube::Client& client, const std::string& name) {
  require_run_name(name);
  const std::string& name_space = client.config().name_space;
  std::optional<json> owner = client.find(kube::resources::config_maps, name_space, name);
  if (owner && kube::label_of(*owner, labels::run) == name) return owner;
  if (!is_label(name)) return std::nullopt;  // it would act as another selector
  std::vector<std::string> runs;
  const kube::ListOptions named{
      .label_selector = std::string(labels::name) + "=" + name, .field_selector = "", .metadata_only = true};
  for (const json& item : client.list(kube::resources::config_maps, name_space, named).items) {
    if (kube::name_of(item) == kube::label_of(item, labels::run) && !is_trial(item))
      runs.push_back(kube::name_of(item));
  }
  if (runs.empty()) return std::nullopt;
  if (runs.size() > 1) {
    throw Error(ExitCode::usage,
                "'" + name + "' has " + std::to_string(runs.size()) + " runs: " + join(runs, ", "),
                "name the ones to delete");
  }
  return client.find(kube::resources::config_maps, name_space, runs.front());
}

// The message about checkpoints that stay; empty if there are none.
std::string what_stays(const json& owner, const Session& session, const std::string& name_space) {
  const std::optional<RunStatus> recorded = recorded_status(owner);
  const json result = recorded ? recorded->result : json();
  std::optional<CheckpointPlace> place =
      checkpoint_place(owner, json());  // the folder of all checkpoints, not the newest one
  if (!place) return "";
  session.find_folder(*place, name_space);
  std::error_code ignored;
  if (!place->folder.empty()) {
    const bool none =
        !std::filesystem::exists(place->folder, ignored) || std::filesystem::is_empty(place->folder, ignored);
    return none ? "" : "its checkpoints stay in " + describe(*place);
  }
  const bool known = result.is_object() && result.contains("checkpoint");
  return (known ? "its checkpoints stay in " : "checkpoints, if it has written any, stay in ") +
         describe(*place);
}

void remove_object(kube::Client& client, const kube::Resource& resource, const json& object) {
  try {
    client.remove(resource, client.config().name_space, kube::name_of(object),
                  {.uid = kube::uid_of(object), .propagation = "Background", .grace_seconds = {}});
  } catch (const kube::ApiError& error) {
    if (error.status() != 404 && error.status() != 409) throw;  // it was deleted in between
  }
}

// The garbage collector's own finalizers go away by themselves.
std::string describe_left(const std::string& kind, const json& object) {
  std::vector<std::string> finalizers;
  for (const json& finalizer : at_path(object, {"metadata", "finalizers"})) {
    const std::string name = finalizer.is_string() ? finalizer.get<std::string>() : "";
    if (name != "foregroundDeletion" && name != "orphan" && name != "batch.kubernetes.io/job-tracking")
      finalizers.push_back(name);
  }
  const std::string held =
      finalizers.empty() ? "" : " (held by the finalizer " + join(finalizers, ", ") + ")";
  return kind + "/" + kube::name_of(object) + held;
}

// The objects of one run, by uid: a new run of the same name may already exist while the old one is being
// deleted.
class Belongings {
 public:
  Belongings(kube::Client& client, const json& owner)
      : client_(client), run_(kube::name_of(owner)), label_(label_of_owner(owner)) {
    owners_.insert(kube::uid_of(owner));
    try {
      jobs_left();  // now: they are deleted before their pods, and nothing else connects the pods with the
                    // run
    } catch (const kube::ApiError& error) {
      if (error.status() != 403) throw;  // a user who may delete may lack the right to list
    }
  }
  const std::string& run() const { return run_; }

  // Of objects without an owner: they belong to the run as well, and what they own.
  void add(const std::vector<Ownerless>& objects) {
    for (const Ownerless& each : objects) owners_.insert(kube::uid_of(each.object));
  }

  // What is left, by kind, name and what holds it: "pod/x (finalizer a.dev/b)".
  std::vector<std::string> left() {
    using namespace kube::resources;
    std::vector<std::string> left = jobs_left();
    for (const kube::Resource* resource : {&config_maps, &services, &pods}) add_ours(*resource, left);
    try {
      add_ours(secrets, left);
    } catch (const kube::ApiError& error) {
      if (error.status() != 403) throw;  // a user who may delete a run may lack the right to see Secrets
    }
    return left;
  }

 private:
  std::vector<std::string> jobs_left() {
    std::vector<std::string> left;
    for (const json& job : list(kube::resources::jobs)) {
      if (!is_ours(job)) continue;
      owners_.insert(kube::uid_of(job));
      left.push_back(describe_left("job", job));
    }
    return left;
  }
  std::vector<json> list(const kube::Resource& resource) {
    const kube::ListOptions of_run{
        .label_selector = label_ + "=" + run_, .field_selector = "", .metadata_only = true};
    return client_.list(resource, client_.config().name_space, of_run).items;
  }
  void add_ours(const kube::Resource& resource, std::vector<std::string>& left) {
    for (const json& object : list(resource)) {
      if (is_ours(object))
        left.push_back(describe_left(resource.plural.substr(0, resource.plural.size() - 1), object));
    }
  }
  bool is_ours(const json& object) const {
    if (owners_.count(kube::uid_of(object))) return true;
    const json& owners = at_path(object, {"metadata", "ownerReferences"});
    return std::any_of(owners.begin(), owners.end(),
                       [&](const json& owner) { return owners_.count(text_of(owner, {"uid"})) > 0; });
  }

  kube::Client& client_;
  const std::string run_, label_;
  std::set<std::string> owners_;  // the run's ConfigMap, its Jobs, and what has lost its owner
};

// Those that something holds come first.
std::string what_is_left(std::vector<std::string> left) {
  constexpr std::size_t most = 5;
  std::stable_partition(left.begin(), left.end(),
                        [](const std::string& each) { return each.ends_with(")"); });
  const std::size_t all = left.size();
  left.resize(std::min(all, most));
  return join(left, ", ") + (all == 1     ? " is left"
                             : all > most ? " and " + std::to_string(all - most) + " more are left"
                                          : " are left");
}

void wait_for_gone(Belongings& belongings, steady_clock::time_point deadline, Session& session) try {
  const std::string& run = belongings.run();
  for (std::vector<std::string> left = belongings.left(); !left.empty(); left = belongings.left()) {
    if (session.interrupted != 0) {
      throw Error(ExitCode::interrupted, "interrupted; " + run + " is being deleted all the same");
    }
    if (steady_clock::now() > deadline) {
      throw Error(
          ExitCode::timed_out, run + " is still being deleted: " + printable(what_is_left(std::move(left))),
          "the cluster goes on by itself; pods of a lost node stay until it is back or deleted, and an "
          "object with a finalizer until its program has removed that");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
} catch (const kube::ApiError& error) {
  if (error.status() != 403) throw;
  session.note(belongings.run() + " is being deleted; you may not see when that ends: " + error.what());
}

// Looks up all names before deleting anything, so that one ambiguous name leaves every run unchanged. A run
// whose owner was deleted alone has one without a uid here.
std::vector<json> owners_to_delete(const DeleteOptions& options, Session& session, kube::Client& client) {
  const Selection& selection = options.selection;
  std::vector<RunAddress> targets;
  std::vector<json> owners;
  if (!selection.where.empty()) {
    targets = select_targets(session, client, selection);
    if (!may_do(session, "delete", targets, selection)) return {};
    keep_those_that_still_match(session, client, selection, targets);
  } else if (selection.yes) {
    throw Error(ExitCode::usage, "--yes needs --where");
  } else if (selection.names.empty()) {
    throw Error(ExitCode::usage, "a run is required",
                "name it, or say which: mlk delete --where 'phase==Failed && age>1d'");
  }
  for (const std::string& name : selection.where.empty() ? selection.names : std::vector<std::string>{}) {
    if (name.find('/') != std::string::npos) {
      targets.push_back(session.find_run(client, name));
    } else if (const std::optional<json> owner = find_owner(client, name)) {
      owners.push_back(*owner);
    } else if (!find_ownerless(client, client.config().name_space, name).empty()) {
      owners.push_back({{"metadata", {{"name", name}}}});
    } else {
      session.note("there is no run '" + name + "' in namespace '" + client.config().name_space + "'");
    }
  }
  for (const RunAddress& target : targets) {
    if (target.trial) continue;
    if (std::optional<json> owner =
            client.find(kube::resources::config_maps, client.config().name_space, target.run))
      owners.push_back(std::move(*owner));
  }
  for (const auto& [sweep, numbers] : trials_by_sweep(targets)) {
    for (json& owner : give_up_trials(client, sweep, numbers, session)) owners.push_back(std::move(owner));
  }
  return owners;
}

void delete_runs(const DeleteOptions& options, Session& session) {
  const auto timeout = duration_option("--timeout", options.timeout).value_or(std::chrono::seconds(120));
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::vector<json> owners = owners_to_delete(options, session, *client);
  std::vector<Belongings> going;
  for (const json& owner : owners) {
    const std::string& name_space = client->config().name_space;
    const bool is_there = !kube::uid_of(owner).empty();
    if (!options.no_wait) going.emplace_back(*client, owner);
    if (is_there) remove_object(*client, kube::resources::config_maps, owner);
    const std::vector<Ownerless> others = is_there
                                              ? find_ownerless_pods(*client, name_space, owner)
                                              : find_ownerless(*client, name_space, kube::name_of(owner));
    if (!options.no_wait) going.back().add(others);
    for (const Ownerless& each : others) remove_object(*client, *each.resource, each.object);
    session.note("deleting " + kube::name_of(owner));
    if (const std::string stays = what_stays(owner, session, name_space); !stays.empty())
      session.note(printable(stays));
  }
  const steady_clock::time_point deadline = steady_clock::now() + timeout;
  for (Belongings& belongings : going) {
    wait_for_gone(belongings, deadline, session);
    session.note("deleted " + belongings.run());
  }
}

}  // namespace

void add_delete(CLI::App& root, Session& session) {
  auto options = std::make_shared<DeleteOptions>();
  CLI::App* command = root.add_subcommand("delete", "Delete runs and everything that belongs to them");
  command->add_option("RUN", options->selection.names, "Runs to delete");
  add_where_options(*command, options->selection);
  command->add_flag("--no-wait", options->no_wait, "Do not wait until everything is gone");
  command->add_option("--timeout", options->timeout, "How long to wait [2m]")->type_name("DURATION");
  command->callback([options, &session] { delete_runs(*options, session); });
}

}  // namespace mlk
