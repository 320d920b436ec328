#include "cli/local/jobs/jobs.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <vector>

#include "cli/local/api/admit.h"
#include "cli/local/jobs/job_pod.h"
#include "cli/local/jobs/reconcile.h"
#include "cli/local/state/events.h"
#include "cli/local/state/kinds.h"
#include "cli/local/state/metadata.h"
#include "cli/util/json_path.h"

namespace mlk::local {
namespace {

// The uid of the Job that made this pod; empty if no Job made it.
const std::string& controller_of(const json& pod) {
  for (const json& owner : at_path(pod.at("metadata"), {"ownerReferences"})) {
    if (owner.value("controller", false) && text_of(owner, {"kind"}) == "Job") return text_of(owner, {"uid"});
  }
  static const std::string none;
  return none;
}

void release(Store& store, const std::string& name_space, const std::string& name) {
  store.modify("pods", name_space, name, [](json& pod) { drop_finalizer(pod, tracking_finalizer); });
}

void mark_for_deletion(Store& store, const std::string& name_space, const std::string& name, Time now) {
  store.modify("pods", name_space, name, [&](json& pod) {
    json& metadata = pod["metadata"];
    if (metadata.contains("deletionTimestamp")) return;
    const bool bound = pod.at("spec").contains("nodeName");
    const long grace = bound ? pod.at("spec").value("terminationGracePeriodSeconds", 30L) : 0;
    metadata["deletionTimestamp"] = format_time(later(now, grace));
    metadata["deletionGracePeriodSeconds"] = grace;
    // A pod without a node has no process that would report its end, so the pod ends here.
    if (!bound) pod["status"]["phase"] = "Failed";
  });
}

// Handles one object, so that its errors do not delay the other objects. A StatusError means that the object
// has changed or was deleted meanwhile. The function ignores this error, since the next step decides again.
template <class Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const StatusError&) {
    return;
  } catch (const std::exception& error) {
    std::cerr << "job controller: " << error.what() << '\n';
  }
}

void apply(Store& store, const json& job, const JobActions& actions, Time now) {
  const std::string name_space = namespace_of(job);
  if (actions.status != job.value("status", json::object())) {
    store.modify("jobs", job, [&](json& current) { current["status"] = actions.status; });
  }
  for (const std::string& pod : actions.release) attempt([&] { release(store, name_space, pod); });
  for (const std::string& pod : actions.remove)
    attempt([&] { mark_for_deletion(store, name_space, pod, now); });
  for (const NewPod& pod : actions.create) {
    attempt([&] {
      const Admission admission{kind_of("pods"), name_space, new_uid(), "", now};
      json object = admit_new(admission, pod_of(job, pod, random_suffix()));
      object["status"] = {{"phase", "Pending"}};
      store.create("pods", object);
      record_event(store, job, "job-controller", "Normal", "SuccessfulCreate",
                   "Created pod: " + name_of(object), now);
    });
  }
  for (const JobEvent& event : actions.events)
    record_event(store, job, "job-controller", event.type, event.reason, event.message, now);
}

// The time at which to delete the finished Job, from ttlSecondsAfterFinished; nullopt if the Job has no such
// field or no end time.
std::optional<Time> expiry_of(const json& job) {
  if (!job.at("spec").contains("ttlSecondsAfterFinished")) return std::nullopt;
  for (const json& condition : job.value("/status/conditions"_json_pointer, json::array())) {
    const std::string type = condition.value("type", "");
    const auto since = parse_time(condition.value("lastTransitionTime", ""));
    if ((type == "Complete" || type == "Failed") && since) {
      return later(*since, job.at("spec").at("ttlSecondsAfterFinished").get<long>());
    }
  }
  return std::nullopt;
}

// If a condition of a finished Job has a time in the future, corrects this time, since
// ttlSecondsAfterFinished counts from it.
void correct_end(Store& store, const json& job, Time now) {
  json conditions = job.value("/status/conditions"_json_pointer, json::array());
  for (json& condition : conditions) {
    const std::string since = condition.value("lastTransitionTime", "");
    if (!since.empty()) condition["lastTransitionTime"] = past_time(since, now);
  }
  if (conditions == job.value("/status/conditions"_json_pointer, json::array())) return;
  store.modify("jobs", job, [&](json& current) { current["status"]["conditions"] = conditions; });
}

// Whether reconcile() needs the pods of this Job that have succeeded and are counted. If not, the caller
// leaves these pods out, since the Job of a sweep over parameters has thousands of them.
bool needs_counted_successes(const json& job) {
  const json& spec = job.at("spec");
  return !is_finished(job) && (!spec.contains("backoffLimitPerIndex") || spec.contains("successPolicy"));
}

// The pods by the uid of their Job. The uid is empty for pods without an owner, such as the pods of a Job
// that was deleted without them.
std::map<std::string, std::vector<Object>> pods_of_jobs(const std::vector<Object>& pods,
                                                        const std::vector<Object>& jobs) {
  std::set<std::string> short_lists;
  for (const Object& job : jobs) {
    if (!needs_counted_successes(*job)) short_lists.insert(uid_of(*job));
  }
  std::map<std::string, std::vector<Object>> result;
  for (const Object& pod : pods) {
    const bool counted = text_of(*pod, {"status", "phase"}) == "Succeeded" &&
                         at_path(pod->at("metadata"), {"finalizers"}).empty();
    const std::string& job = controller_of(*pod);
    const bool is_of_a_job = !job.empty() || at_path(pod->at("metadata"), {"ownerReferences"}).empty();
    if (is_of_a_job && !(counted && short_lists.contains(job))) result[job].push_back(pod);
  }
  return result;
}

}  // namespace

std::optional<Time> step_jobs(Store& store, Time now) {
  const std::vector<Object> all_pods = store.list("pods"), jobs = store.list("jobs");
  std::map<std::string, std::vector<Object>> pods = pods_of_jobs(all_pods, jobs);
  std::optional<Time> again;
  const auto check_again = [&](Time time) { again = std::min(again.value_or(time), time); };
  for (const Object& job : jobs) {
    const std::vector<Object> own = std::move(pods[uid_of(*job)]);
    pods.erase(uid_of(*job));
    if (job->at("metadata").contains("deletionTimestamp")) {
      for (const Object& pod : own) attempt([&] { release(store, namespace_of(*pod), name_of(*pod)); });
      continue;
    }
    if (is_finished(*job)) {
      attempt([&] { correct_end(store, *job, now); });
      const auto expiry = expiry_of(*job);
      if (expiry && *expiry <= now) store.remove("jobs", namespace_of(*job), name_of(*job));
      if (expiry && *expiry > now) check_again(*expiry);
      continue;
    }
    std::vector<const json*> pointers;
    for (const Object& pod : own) pointers.push_back(pod.get());
    attempt([&] {
      const JobActions actions = reconcile(*job, pointers, now);
      if (actions.again) check_again(*actions.again);
      apply(store, *job, actions, now);
    });
  }
  // The Jobs of the remaining pods are gone and cannot count these pods, so the pods lose the finalizer.
  for (const auto& [job, orphans] : pods) {
    for (const Object& pod : orphans) {
      if (has_finalizer(*pod, tracking_finalizer))
        attempt([&] { release(store, namespace_of(*pod), name_of(*pod)); });
    }
  }
  return again;
}

}  // namespace mlk::local
