#include "cli/run/facts.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/absence.h"
#include "cli/run/diagnosis.h"
#include "cli/run/indexes.h"
#include "cli/run/labels.h"
#include "cli/run/status.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using kube::annotation_of;
using kube::label_of;
using std::chrono::seconds;

constexpr char index_annotation[] = "batch.kubernetes.io/job-completion-index";
constexpr char failures_annotation[] = "batch.kubernetes.io/job-index-failure-count";
constexpr char ignored_annotation[] = "batch.kubernetes.io/job-index-ignored-failure-count";

// The condition of that type, if its status is True (or `wanted`).
const json* condition_of(const json& object, std::string_view type, std::string_view wanted = "True") {
  for (const json& condition : at_path(object, {"status", "conditions"})) {
    if (text_of(condition, {"type"}) == type && text_of(condition, {"status"}) == wanted) return &condition;
  }
  return nullptr;
}

void read_container(const json& pod, PodFacts& facts) {
  const json& states = at_path(pod, {"status", "containerStatuses"});
  // An init container that fails or waits keeps the others from starting, so it is the one to report.
  for (const json& init : at_path(pod, {"status", "initContainerStatuses"})) {
    const json& state = at_path(init, {"state"});
    facts.waiting_reason = text_of(state, {"waiting", "reason"});
    facts.waiting_message = text_of(state, {"waiting", "message"});
    if (number_of(state, {"terminated", "exitCode"}, 0) != 0) {
      facts.exit_code = number_of(state, {"terminated", "exitCode"}, 0);
      facts.end_reason = text_of(state, {"terminated", "reason"});
      facts.end_message = text_of(state, {"terminated", "message"});
      facts.finished = time_of(state, {"terminated", "finishedAt"});
      return;
    }
    if (!facts.waiting_reason.empty() && facts.waiting_reason != "PodInitializing") return;
  }
  if (!states.is_array() || states.empty()) return;
  const json& state = at_path(states.front(), {"state"});
  facts.waiting_reason = text_of(state, {"waiting", "reason"});
  facts.waiting_message = text_of(state, {"waiting", "message"});
  facts.started = time_of(state, {"running", "startedAt"});
  const json& end = at_path(state, {"terminated"});
  if (!end.is_object()) return;
  facts.exit_code = number_of(end, {"exitCode"}, -1);
  facts.end_reason = text_of(end, {"reason"});
  facts.end_message = text_of(end, {"message"});
  facts.started = time_of(end, {"startedAt"});
  facts.finished = time_of(end, {"finishedAt"});
  // A container that never started has 1970 here.
  if (facts.started && facts.started->time_since_epoch().count() == 0) facts.started.reset();
  if (facts.finished && facts.finished->time_since_epoch().count() == 0) facts.finished.reset();
}

// The node controller marks the pods of a silent node as not ready, whereas a container that runs without
// probes reports itself as ready.
bool says_node_lost(const json& pod, const PodFacts& facts) {
  if (facts.pod_reason == "NodeLost" || facts.phase == "Unknown") return true;
  if (facts.phase != "Running" || facts.node.empty()) return false;
  if (!condition_of(pod, "Ready", "False"))
    return facts.disruption == "DeletionByTaintManager" && facts.deleting;
  const json& states = at_path(pod, {"status", "containerStatuses"});
  return states.is_array() && !states.empty() && at_path(states.front(), {"ready"}) == true;
}

PodFacts read_pod(const json& pod) {
  PodFacts facts;
  facts.name = kube::name_of(pod);
  facts.uid = kube::uid_of(pod);
  facts.job = label_of(pod, "batch.kubernetes.io/job-name");
  facts.role = label_of(pod, labels::role);
  facts.node = text_of(pod, {"spec", "nodeName"});
  facts.rank = parse_int(annotation_of(pod, index_annotation), 0);
  facts.number = number_of_index(annotation_of(pod, labels::trials), facts.rank);
  facts.counted_before = parse_int(annotation_of(pod, failures_annotation), 0);
  facts.failures_before = facts.counted_before + parse_int(annotation_of(pod, ignored_annotation), 0);
  facts.created = time_of(pod, {"metadata", "creationTimestamp"}).value_or(Time{});
  facts.deleting = at_path(pod, {"metadata", "deletionTimestamp"}).is_string();
  facts.phase = text_of(pod, {"status", "phase"});
  facts.pod_reason = text_of(pod, {"status", "reason"});
  facts.pod_message = text_of(pod, {"status", "message"});
  const json& containers = at_path(pod, {"spec", "containers"});
  if (containers.is_array() && !containers.empty()) facts.image = text_of(containers.front(), {"image"});
  read_container(pod, facts);
  facts.trained = at_path(parse_result(facts.end_message), {"done"}) == true;
  if (const json* scheduled = condition_of(pod, "PodScheduled", "False")) {
    facts.unschedulable = text_of(*scheduled, {"message"});
    if (facts.unschedulable.empty()) facts.unschedulable = text_of(*scheduled, {"reason"});
  }
  facts.scheduled = !facts.node.empty();
  if (const std::optional<Time> deadline = time_of(pod, {"metadata", "deletionTimestamp"}))
    facts.asked_to_end = *deadline - seconds(number_of(pod, {"metadata", "deletionGracePeriodSeconds"}, 0));
  if (const json* disrupted = condition_of(pod, "DisruptionTarget")) {
    facts.asked_to_end = time_of(*disrupted, {"lastTransitionTime"});
    facts.disruption = text_of(*disrupted, {"reason"});
    facts.disruption_message = text_of(*disrupted, {"message"});
    if (!facts.finished && facts.phase == "Failed")
      facts.finished = time_of(*disrupted, {"lastTransitionTime"});
  }
  if (!facts.finished && facts.ended()) {
    if (const json* ready = condition_of(pod, "Ready", "False"))
      facts.finished = time_of(*ready, {"lastTransitionTime"});
    if (!facts.finished) facts.finished = time_of(pod, {"metadata", "deletionTimestamp"});
  }
  facts.node_lost = says_node_lost(pod, facts);
  return facts;
}

void read_end(const json& job, JobFacts& facts) {
  for (const auto& [type, end] :
       {std::pair{"Complete", JobFacts::End::succeeded}, {"Failed", JobFacts::End::failed}}) {
    const json* condition = condition_of(job, type);
    if (!condition) continue;
    facts.finished = true;
    facts.end = end;
    facts.end_reason = text_of(*condition, {"reason"});
    facts.end_message = text_of(*condition, {"message"});
    facts.ended_at = time_of(*condition, {"lastTransitionTime"});
    if (!facts.ended_at) facts.ended_at = time_of(job, {"status", "completionTime"});
  }
  for (const char* type : {"SuccessCriteriaMet", "FailureTarget"}) {
    const json* condition = condition_of(job, type);
    if (!condition || facts.end != JobFacts::End::none) continue;
    facts.ending = true;
    facts.failing = std::string_view(type) == "FailureTarget";
    facts.end_reason = text_of(*condition, {"reason"});
    facts.end_message = text_of(*condition, {"message"});
    facts.ended_at = time_of(*condition, {"lastTransitionTime"});
  }
}

bool has_condition(const json& pod, const json& pattern) {
  const std::string status = text_of(pattern, {"status"});
  return condition_of(pod, text_of(pattern, {"type"}), status.empty() ? "True" : status) != nullptr;
}

bool has_exit_code(const PodFacts& facts, const json& pattern) {
  if (facts.exit_code.value_or(0) == 0) return false;
  const json& values = at_path(pattern, {"values"});
  const bool listed = std::find(values.begin(), values.end(), *facts.exit_code) != values.end();
  return listed == (text_of(pattern, {"operator"}) == "In");
}

// Whether the Job's podFailurePolicy makes this end of a pod the end of the Job: the first matching rule
// decides. The Job controller reports it a moment later than the pod.
bool fails_job(const json& job, const json& pod, const PodFacts& facts) {
  if (facts.phase != "Failed") return false;
  for (const json& rule : at_path(job, {"spec", "podFailurePolicy", "rules"})) {
    const json& conditions = at_path(rule, {"onPodConditions"});
    const json& codes = at_path(rule, {"onExitCodes"});
    const bool fits = codes.is_object() ? has_exit_code(facts, codes)
                                        : std::any_of(conditions.begin(), conditions.end(),
                                                      [&](const json& c) { return has_condition(pod, c); });
    if (fits) return text_of(rule, {"action"}) == "FailJob";
  }
  return false;
}

JobFacts read_job(const json& job) {
  JobFacts facts;
  facts.name = kube::name_of(job);
  facts.uid = kube::uid_of(job);
  facts.time_limit = number_of(job, {"spec", "activeDeadlineSeconds"}, 0);
  facts.role = label_of(job, labels::role);
  facts.queue = label_of(job, "kueue.x-k8s.io/queue-name");
  facts.completions = std::clamp(number_of(job, {"spec", "completions"}, 1), 0, most_ranks);
  facts.parallelism = std::clamp(number_of(job, {"spec", "parallelism"}, 1), 0, most_ranks);
  facts.needed =
      std::max(0, facts.completions - std::max(0, number_of(job, {"spec", "maxFailedIndexes"}, 0)));
  facts.trains = annotation_of(job, labels::trains) == "true";
  facts.enough = facts.trains ? 1 : std::max(1, facts.needed);
  facts.attempts =
      number_of(job, {"spec", "backoffLimitPerIndex"}, number_of(job, {"spec", "backoffLimit"}, 0)) + 1;
  facts.active = number_of(job, {"status", "active"}, 0);
  facts.decides = annotation_of(job, labels::decides) == "true";
  facts.has_success_policy = at_path(job, {"spec", "successPolicy"}).is_object();
  facts.suspended = at_path(job, {"spec", "suspend"}) == true;
  facts.deleting = at_path(job, {"metadata", "deletionTimestamp"}).is_string();
  facts.replaced_when_terminating = text_of(job, {"spec", "podReplacementPolicy"}) != "Failed";
  facts.completed = parse_indexes(text_of(job, {"status", "completedIndexes"}));
  facts.failed_ranks = parse_indexes(text_of(job, {"status", "failedIndexes"}));
  facts.started = time_of(job, {"status", "startTime"});
  read_end(job, facts);
  return facts;
}

// The Job still runs: its controller has not processed the pod that fails it yet.
void expect_failure(Facts& facts) {
  JobFacts& decider = facts.jobs.front();
  if (decider.end != JobFacts::End::none || decider.ending || decider.suspended) return;
  for (const PodFacts& pod : facts.pods) {
    const bool earlier =
        decider.started && pod.created < *decider.started;  // from before the run was stopped
    if (!pod.final || pod.job != decider.name || earlier) continue;
    decider.ending = decider.failing = true;
    decider.end_reason = "PodFailurePolicy";
    decider.end_message = "pod /" + pod.name + " failed";
    return;
  }
}

// What is trained stays trained: when enough ranks have ended well, the run has succeeded, whatever the other
// ranks do later, and whatever a Job that counts them says. The result file shows it for a rank that was
// killed between its last report and its own end.
bool has_succeeded(const Facts& facts) {
  if (facts.decider() == nullptr) return false;
  const JobFacts& decider = *facts.decider();
  if (decider.end == JobFacts::End::succeeded) return true;
  if (static_cast<int>(decider.completed.size()) >= decider.enough) return true;
  return decider.trains &&
         std::any_of(facts.pods.begin(), facts.pods.end(), [](const PodFacts& pod) { return pod.trained; });
}

// From now on the conditions of the run's Jobs do not count.
void settle_success(Facts& facts) {
  std::optional<Time> last;
  for (const PodFacts& pod : facts.pods) {
    if (pod.job == facts.jobs.front().name && pod.finished && (pod.trained || pod.phase == "Succeeded"))
      last = std::max(last.value_or(*pod.finished), *pod.finished);
  }
  for (JobFacts& job : facts.jobs) {
    if (job.end != JobFacts::End::succeeded && job.decides && !job.ending) job.ended_at = last;
    job.end = JobFacts::End::succeeded;
    job.failing = false;
    job.end_reason = job.end_message = "";
  }
}

void read_warnings(const std::vector<json>& events, Facts& facts) {
  const auto keep = [](std::map<std::string, Warning>& newest, const std::string& object,
                       const Warning& warning) {
    const auto [place, first] = newest.try_emplace(object, warning);
    if (!first && place->second.at <= warning.at) place->second = warning;
  };
  for (const json& event : events) {
    if (text_of(event, {"type"}) == "Normal") continue;
    std::optional<Time> at = time_of(event, {"series", "lastObservedTime"});
    if (!at) at = time_of(event, {"lastTimestamp"});
    if (!at) at = time_of(event, {"eventTime"});
    if (!at) at = time_of(event, {"metadata", "creationTimestamp"});
    const Warning warning{text_of(event, {"reason"}), text_of(event, {"message"}), at.value_or(Time{})};
    const std::string object = text_of(event, {"involvedObject", "uid"});
    keep(facts.warnings, object, warning);
    if (warning.message.starts_with("Failed to pull image")) keep(facts.failed_pulls, object, warning);
  }
}

Facts read_all_facts(const std::vector<json>& jobs, const std::vector<json>& pods,
                     const std::vector<json>& events, const std::vector<std::string>& deciding);

}  // namespace

std::vector<std::string> tags_of(const json& owner) {
  std::vector<std::string> tags;
  const json words = json_or_null(annotation_of(owner, labels::tags));
  if (!words.is_array()) return tags;
  for (const json& word : words) {
    if (word.is_string()) tags.push_back(word.get<std::string>());
  }
  return tags;
}

const json& at_path(const json& object, std::initializer_list<const char*> path) {
  static const json nothing;
  const json* here = &object;
  for (const char* key : path) {
    if (!here->is_object()) return nothing;
    const auto found = here->find(key);
    if (found == here->end()) return nothing;
    here = &*found;
  }
  return *here;
}

std::string text_of(const json& object, std::initializer_list<const char*> path) {
  const json& value = at_path(object, path);
  return value.is_string() ? value.get<std::string>() : "";
}

std::int64_t whole_number(const json& value) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{largest}) return largest;
  return value.get<std::int64_t>();
}

int number_of(const json& object, std::initializer_list<const char*> path, int otherwise) {
  const json& value = at_path(object, path);
  if (!value.is_number_integer()) return otherwise;
  constexpr std::int64_t bound = 1'000'000'000;
  return static_cast<int>(std::clamp(whole_number(value), -bound, bound));
}

std::int64_t count_of(const json& object, std::initializer_list<const char*> path, std::int64_t otherwise) {
  const json& value = at_path(object, path);
  return value.is_number_integer() ? whole_number(value) : otherwise;
}

std::optional<Time> time_of(const json& object, std::initializer_list<const char*> path) {
  const json& value = at_path(object, path);
  return value.is_string() ? parse_time(value.get_ref<const std::string&>()) : std::nullopt;
}

std::map<std::string, int> roles_of(const json& owner) {
  const json named = json_or_null(kube::annotation_of(owner, labels::roles));
  std::map<std::string, int> roles;
  if (!named.is_object()) return roles;
  for (const auto& [role, unused] : named.items()) roles[role] = number_of(named, {role.c_str()}, 0);
  return roles;
}

Facts read_facts(const RunObjects& objects) {
  return read_all_facts(objects.jobs, objects.pods, objects.events, jobs_made(objects.owner));
}

Facts read_facts(const std::vector<json>& jobs, const std::vector<json>& pods,
                 const std::vector<json>& events) {
  return read_all_facts(jobs, pods, events, {});
}

namespace {

Facts read_all_facts(const std::vector<json>& jobs, const std::vector<json>& pods,
                     const std::vector<json>& events, const std::vector<std::string>& deciding) {
  Facts facts;
  for (const json& job : jobs) facts.jobs.push_back(read_job(job));
  // If no Job is marked: the one with a success policy decides, else the workers' one, else the only Job.
  const auto any = [&](bool JobFacts::* member) {
    return std::any_of(facts.jobs.begin(), facts.jobs.end(),
                       [&](const JobFacts& job) { return job.*member; });
  };
  bool marked = any(&JobFacts::decides);
  if (!marked && any(&JobFacts::has_success_policy)) {
    for (JobFacts& job : facts.jobs) job.decides = job.has_success_policy;
    marked = true;
  }
  for (JobFacts& job : facts.jobs) {
    if (!marked) job.decides = job.role == "worker" || facts.jobs.size() == 1;
    if (!deciding.empty())
      job.decides = std::find(deciding.begin(), deciding.end(), job.name) != deciding.end();
  }
  std::sort(facts.jobs.begin(), facts.jobs.end(), [](const JobFacts& a, const JobFacts& b) {
    return std::pair(!a.decides, a.name) < std::pair(!b.decides, b.name);
  });
  if (!facts.jobs.empty() && deciding.empty()) facts.jobs.front().decides = true;
  for (const json& pod : pods) {
    facts.pods.push_back(read_pod(pod));
    const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const json& each) {
      return kube::name_of(each) == facts.pods.back().job;
    });
    if (job != jobs.end()) facts.pods.back().final = fails_job(*job, pod, facts.pods.back());
  }
  std::sort(facts.pods.begin(), facts.pods.end(), [](const PodFacts& a, const PodFacts& b) {
    return std::tie(a.created, a.failures_before, a.name) < std::tie(b.created, b.failures_before, b.name);
  });
  if (facts.decider() != nullptr) expect_failure(facts);
  if (has_succeeded(facts)) settle_success(facts);
  read_warnings(events, facts);
  return facts;
}

}  // namespace

bool has_live_pods(const RunObjects& objects) {
  const Facts facts = read_facts(objects);
  return std::any_of(facts.pods.begin(), facts.pods.end(),
                     [](const PodFacts& pod) { return !pod.ended() && !pod.node_lost; });
}

bool has_running_pods(const RunObjects& objects) {
  const Facts facts = read_facts(objects);
  return std::any_of(facts.pods.begin(), facts.pods.end(),
                     [](const PodFacts& pod) { return pod.phase == "Running" && !pod.node_lost; });
}

std::vector<std::string> jobs_going_on(const RunObjects& objects) {
  const Facts facts = read_facts(objects);
  std::vector<std::string> names;
  for (const JobFacts& job : facts.jobs) {
    std::set<int> over = job.completed;
    over.insert(job.failed_ranks.begin(), job.failed_ranks.end());
    for (const PodFacts& pod : facts.pods) {
      if (pod.job == job.name && pod.phase == "Succeeded") over.insert(pod.rank);
    }
    const bool removes_its_pods = job.finished || job.ending || job.suspended || job.deleting;
    if (!removes_its_pods && static_cast<int>(over.size()) < job.completions) names.push_back(job.name);
  }
  return names;
}

}  // namespace mlk
