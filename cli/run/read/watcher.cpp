#include "cli/run/read/watcher.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <set>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/kube/reflector.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/find.h"
#include "cli/run/read/side_reads.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds patience{60'000};  // the watcher reports a silence of this length

bool has_ended(const json& pod) {
  const std::string phase = text_of(pod, {"status", "phase"});
  return phase == "Failed" || phase == "Succeeded";
}

// The last state of a pod that is gone. If the pod ran in this state, the pod counts as failed: somebody
// force-deleted it, or the watcher missed its end during a lost connection.
json as_gone(json pod) {
  json& meta = pod["metadata"];
  if (!meta.contains("deletionTimestamp"))
    meta["deletionTimestamp"] = text_of(pod, {"metadata", "creationTimestamp"});
  if (!has_ended(pod)) pod["status"]["phase"] = "Failed";
  return pod;
}

}  // namespace

void PodMemory::remember(const json& pod) {
  const std::string uid = kube::uid_of(pod);
  if (last_seen_.size() < most_pods || last_seen_.count(uid)) last_seen_[uid] = pod;
}

std::vector<json> PodMemory::with_gone(std::vector<json> pods) {
  std::set<std::string> here;
  for (const json& pod : pods) {
    const std::string uid = kube::uid_of(pod);
    here.insert(uid);
    const auto known = last_seen_.find(uid);
    const bool older = known != last_seen_.end() && has_ended(known->second) && !has_ended(pod);
    if (!older) remember(pod);
  }
  for (auto& [uid, pod] : last_seen_) {
    if (here.count(uid)) continue;
    // A pod that never ran has nothing to report, so it is left out.
    if (text_of(pod, {"status", "phase"}) != "Pending") pods.push_back(as_gone(pod));
  }
  return pods;
}

RunObjects with_ended_jobs(RunObjects objects, const std::map<std::string, json>& last_seen, Time now) {
  const std::string owner = kube::uid_of(objects.owner);
  RunObjects before = objects;
  for (const auto& [name, job] : last_seen) {
    const json& owners = at_path(job, {"metadata", "ownerReferences"});
    const bool ours = std::any_of(owners.begin(), owners.end(),
                                  [&](const json& one) { return text_of(one, {"uid"}) == owner; });
    const bool there = std::any_of(objects.jobs.begin(), objects.jobs.end(),
                                   [&](const json& other) { return kube::name_of(other) == name; });
    if (ours && !there) before.jobs.push_back(job);
  }
  if (before.jobs.size() == objects.jobs.size()) return objects;
  RunObjects jobs_alone = before;  // only Jobs show the end, since their pods were deleted too
  jobs_alone.pods.clear();
  return is_final(observe(jobs_alone, now).phase) ? before : objects;
}

struct RunWatcher::State {
  State(kube::Client& api, std::string where, std::string which)
      : client(api),
        name_space(std::move(where)),
        run(std::move(which)),
        side_reads(api, name_space, SideReads::Scope::one_run) {}

  std::mutex mutex;
  std::condition_variable changed;
  bool dirty = false;
  kube::Client& client;
  const std::string name_space, run;
  PodMemory memory;
  SideReads side_reads;                   // used by the thread that calls objects()
  std::map<std::string, json> gone_jobs;  // by name, in their last state
  // Declared last, so that the reflectors stop before the members that their callbacks use are destroyed.
  std::unique_ptr<kube::Reflector> owner, jobs, pods, events;

  void mark() {
    {
      const std::lock_guard lock(mutex);
      dirty = true;
    }
    changed.notify_all();
  }
  std::vector<json> with_gone(std::vector<json> all) {
    const std::lock_guard lock(mutex);
    return memory.with_gone(std::move(all));
  }
  RunObjects with_ended(RunObjects objects) {
    const std::lock_guard lock(mutex);
    return gone_jobs.empty()
               ? std::move(objects)
               : with_ended_jobs(std::move(objects), gone_jobs, std::chrono::system_clock::now());
  }
  std::array<const kube::Reflector*, 3> needed() const { return {owner.get(), jobs.get(), pods.get()}; }
};

RunWatcher::RunWatcher(kube::Client& client, std::string name_space, const std::string& run)
    : state_(std::make_unique<State>(client, name_space, run)) {
  using namespace kube::resources;
  State& state = *state_;
  const std::string selector = std::string(labels::run) + "=" + run;
  const auto watch = [&](const kube::Resource& resource, kube::ListOptions options,
                         std::function<void(const json&)> removed = {}) {
    return std::make_unique<kube::Reflector>(
        client, resource, name_space, std::move(options), [&state] { state.mark(); }, kube::ReflectorTimes(),
        std::move(removed));
  };
  state.owner = watch(config_maps, {.field_selector = "metadata.name=" + run});
  state.jobs = watch(kube::resources::jobs, {.label_selector = selector}, [&state](const json& job) {
    const std::lock_guard lock(state.mutex);
    state.gone_jobs[kube::name_of(job)] = job;
  });
  state.pods = watch(kube::resources::pods, {.label_selector = selector}, [&state](const json& pod) {
    const std::lock_guard lock(state.mutex);
    state.memory.remember(pod);
  });
  state.events = watch(kube::resources::events, {.field_selector = "type!=Normal"});
}

RunWatcher::~RunWatcher() = default;

bool RunWatcher::wait_for_change(milliseconds timeout) {
  State& state = *state_;
  bool changed = false;
  {
    std::unique_lock lock(state.mutex);
    changed = state.changed.wait_for(lock, timeout, [&] { return state.dirty; });
    state.dirty = false;
  }
  for (const kube::Reflector* reflector : state.needed()) {
    const std::exception_ptr failure = reflector->failure();
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const kube::ApiError& error) {
      if (error.status() == 401 || error.status() == 403 || error.status() == 404) throw;
    }
  }
  return changed;
}

bool RunWatcher::synced() const {
  const auto all = state_->needed();
  if (!std::ranges::all_of(all, [](const kube::Reflector* reflector) { return reflector->synced(); }))
    return false;
  return state_->events->synced() || state_->events->failure();
}

bool RunWatcher::owner_exists() const { return !state_->owner->objects().empty(); }

RunObjects RunWatcher::objects() {
  RunObjects objects;
  const std::vector<json> owners = state_->owner->objects();
  if (!owners.empty()) objects.owner = owners.front();
  objects.jobs = state_->jobs->objects();
  objects.pods = state_->with_gone(state_->pods->objects());
  objects.events = state_->events->objects();
  std::erase_if(objects.events, [&](const json& event) {
    return !text_of(event, {"involvedObject", "name"}).starts_with(state_->run);
  });
  objects = state_->with_ended(std::move(objects));
  state_->side_reads.poll(objects);
  return objects;
}

RunObjects RunWatcher::read_again() {
  RunObjects objects = fetch_run(state_->client, state_->name_space, state_->run);
  objects.pods = state_->with_gone(std::move(objects.pods));
  return state_->with_ended(std::move(objects));
}

std::string RunWatcher::trouble() const {
  for (const kube::Reflector* reflector : state_->needed()) {
    const std::exception_ptr failure = reflector->failure();
    if (!failure || reflector->failing_for() < patience) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  return "";
}

}  // namespace mlk
