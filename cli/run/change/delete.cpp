#include "cli/run/change/delete.h"

#include <algorithm>
#include <thread>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/change/ownerless.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// Does not show the finalizers of Kubernetes itself, which disappear without help.
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

// Objects that a finalizer holds come first.
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

// The owner of the run or sweep, as find_owner_to_delete() finds it; nullopt if the owner is gone.
std::optional<json> find_owner(kube::Client& client, const std::string& name, const Me& me) {
  require_run_name(name);
  const std::string& name_space = client.config().name_space;
  std::optional<json> owner = client.find(kube::resources::config_maps, name_space, name);
  if (owner && kube::label_of(*owner, labels::run) == name) return owner;
  if (!is_label(name)) return std::nullopt;  // a text such as "a,b" would select other objects
  std::vector<std::string> mine, of_others;
  const kube::ListOptions named{.label_selector = std::string(labels::name) + "=" + name,
                                .metadata_only = true};
  for (const json& item : client.list(kube::resources::config_maps, name_space, named).items) {
    if (kube::name_of(item) != kube::label_of(item, labels::run) || is_trial(item)) continue;
    (is_of_another(submitter_of(item), me) ? of_others : mine).push_back(kube::name_of(item));
  }
  const std::vector<std::string>& runs = mine.empty() ? of_others : mine;
  if (runs.empty()) return std::nullopt;
  if (runs.size() > 1) {
    throw Error(ExitCode::usage,
                "'" + name + "' has " + std::to_string(runs.size()) + " runs: " + join(runs, ", "),
                "name the ones to delete");
  }
  return client.find(kube::resources::config_maps, name_space, runs.front());
}

}  // namespace

void remove_if_there(kube::Client& client, const std::string& name_space, const kube::Resource& resource,
                     const std::string& name, const std::string& uid) {
  try {
    client.remove(resource, name_space, name, uid);
  } catch (const kube::ApiError& error) {
    if (error.status() != 404 && error.status() != 409) throw;
  }
}

std::optional<json> find_owner_to_delete(kube::Client& client, const std::string& name, const Me& me) {
  if (std::optional<json> owner = find_owner(client, name, me)) return owner;
  if (find_ownerless(client, client.config().name_space, name).empty()) return std::nullopt;
  const json gone = {{"metadata", {{"name", name}}}};
  return gone;
}

Deletion::Deletion(kube::Client& client, const json& owner)
    : client_(client), owner_(owner), run_(kube::name_of(owner)), label_(label_of_owner(owner)) {
  owners_.insert(kube::uid_of(owner));
}

void Deletion::begin(IsAwaited awaited) {
  const std::string& name_space = client_.config().name_space;
  try {
    // Read the Jobs first: they disappear before their pods, and only the Jobs connect the pods with the run.
    if (awaited == IsAwaited::yes) jobs_left();
  } catch (const kube::ApiError& error) {
    if (error.status() != 403) throw;  // a user who may delete may lack the right to list
  }
  const bool is_there = !kube::uid_of(owner_).empty();
  if (is_there)
    remove_if_there(client_, name_space, kube::resources::config_maps, run_, kube::uid_of(owner_));
  const std::vector<Ownerless> others =
      is_there ? find_ownerless_pods(client_, name_space, owner_) : find_ownerless(client_, name_space, run_);
  // wait() also waits for these objects and for the objects that they own, so it needs their uids.
  for (const Ownerless& each : others) owners_.insert(kube::uid_of(each.object));
  for (const Ownerless& each : others)
    remove_if_there(client_, name_space, *each.resource, kube::name_of(each.object),
                    kube::uid_of(each.object));
}

void Deletion::wait(steady_clock::time_point deadline, const ChangeHooks& hooks) try {
  constexpr std::chrono::milliseconds between_looks{200};
  for (std::vector<std::string> all = left(); !all.empty(); all = left()) {
    if (hooks.interrupted())
      throw Error(ExitCode::interrupted, "interrupted; " + run_ + " is being deleted all the same");
    if (steady_clock::now() > deadline) {
      throw Error(ExitCode::timed_out,
                  run_ + " is still being deleted: " + printable(what_is_left(std::move(all))),
                  "the cluster continues by itself; pods of a lost node stay until the node is back or "
                  "deleted, and an object with a finalizer stays until its program removes the finalizer");
    }
    std::this_thread::sleep_for(between_looks);
  }
} catch (const kube::ApiError& error) {
  if (error.status() != 403) throw;
  hooks.note(run_ + " is being deleted; you may not see when that ends: " + error.what());
}

// The objects that are left, with kind, name and finalizers: "pod/x (held by the finalizer a.dev/b)".
std::vector<std::string> Deletion::left() {
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

std::vector<std::string> Deletion::jobs_left() {
  std::vector<std::string> left;
  for (const json& job : list(kube::resources::jobs)) {
    if (!is_ours(job)) continue;
    owners_.insert(kube::uid_of(job));
    left.push_back(describe_left("job", job));
  }
  return left;
}

std::vector<json> Deletion::list(const kube::Resource& resource) {
  const kube::ListOptions of_run{.label_selector = label_ + "=" + run_, .metadata_only = true};
  return client_.list(resource, client_.config().name_space, of_run).items;
}

void Deletion::add_ours(const kube::Resource& resource, std::vector<std::string>& left) {
  for (const json& object : list(resource)) {
    if (is_ours(object))
      left.push_back(describe_left(resource.plural.substr(0, resource.plural.size() - 1), object));
  }
}

bool Deletion::is_ours(const json& object) const {
  if (owners_.count(kube::uid_of(object))) return true;
  const json& owners = at_path(object, {"metadata", "ownerReferences"});
  return std::any_of(owners.begin(), owners.end(),
                     [&](const json& owner) { return owners_.count(text_of(owner, {"uid"})) > 0; });
}

}  // namespace mlk
