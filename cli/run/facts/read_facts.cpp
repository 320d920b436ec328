#include "cli/run/facts/read_facts.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/deletion.h"
#include "cli/run/facts/denied.h"
#include "cli/run/facts/job_times.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/last_words.h"
#include "cli/run/facts/next_try.h"
#include "cli/run/facts/node_loss.h"
#include "cli/run/facts/owner.h"
#include "cli/run/facts/program_error.h"
#include "cli/util/indexes.h"
#include "cli/util/json_path.h"
#include "cli/util/number.h"
#include "cli/util/program_text.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using kube::annotation_of;
using kube::label_of;
using std::chrono::seconds;

constexpr char index_annotation[] = "batch.kubernetes.io/job-completion-index";
constexpr char failures_annotation[] = "batch.kubernetes.io/job-index-failure-count";
constexpr char ignored_annotation[] = "batch.kubernetes.io/job-index-ignored-failure-count";

std::string memory_limit_of(const json& pod, const std::string& container) {
  for (const json& each : at_path(pod, {"spec", "containers"})) {
    if (text_of(each, {"name"}) == container) return text_of(each, {"resources", "limits", "memory"});
  }
  return "";
}

void read_program(const json& pod, PodFacts& facts) {
  PodContainers containers = read_containers(pod);
  Container& main = containers.main;
  facts.program = std::move(main.name);
  facts.image = std::move(main.image);
  facts.memory_limit = memory_limit_of(pod, facts.program);
  facts.waiting_reason = std::move(main.waiting_reason);
  facts.waiting_message = std::move(main.waiting_message);
  facts.main_runs = main.runs;
  facts.started = main.runs_since;
  if (main.end) {
    facts.exit_code = main.end->exit_code;
    facts.end_reason = std::move(main.end->reason);
    facts.end_message = std::move(main.end->message);
    facts.started = main.end->started;
    facts.finished = facts.pod_finished = main.end->finished;
  }
  facts.others = std::move(containers.others);
  for (const Container& other : facts.others) {
    if (other.kind == ContainerKind::plain && other.end && other.end->finished)
      facts.pod_finished = std::max(facts.pod_finished.value_or(Time{}), *other.end->finished);
  }
}

// Whether the program of a disrupted pod had ended before the disruption. The kubelet reports a disruption
// that it causes itself only when the last container has ended, so the time of such a report does not help.
// But the kubelet asks all containers to end at the same time, and kills them after the grace period. So a
// program that ended much earlier than the last container was not asked to end.
bool had_ended_before_disruption(const json& pod, const PodFacts& facts) {
  if (!facts.finished || !facts.asked_to_end || *facts.finished >= *facts.asked_to_end) return false;
  if (facts.disruption != "TerminationByKubelet") return true;
  constexpr seconds slack{60};  // for nodes that are slow to kill a container
  const seconds grace(number_of(pod, {"spec", "terminationGracePeriodSeconds"}, 30));
  return facts.pod_finished && *facts.finished + grace + slack < *facts.pod_finished;
}

// Whether the program has ended well by itself, and not because its pod was ended.
bool has_ended_well(const json& pod, const PodFacts& facts) {
  if (facts.exit_code != 0 || facts.phase == "Succeeded") return facts.phase == "Succeeded";
  if (!facts.disruption.empty()) return had_ended_before_disruption(pod, facts);
  if (!facts.pod_reason.empty()) return false;
  // If no other container failed, the pod failed for another reason, so its program has not ended well.
  const bool others_failed = std::ranges::any_of(facts.others, [](const Container& other) {
    return other.kind == ContainerKind::plain && other.end && other.end->exit_code != 0;
  });
  if (facts.phase == "Failed" && !others_failed) return false;
  return !facts.deleting || (facts.finished && facts.asked_to_end && *facts.finished <= *facts.asked_to_end);
}

PodFacts read_pod(const json& pod) {
  PodFacts facts;
  facts.name = kube::name_of(pod);
  facts.uid = kube::uid_of(pod);
  facts.job = label_of(pod, "batch.kubernetes.io/job-name");
  facts.role = label_of(pod, labels::role);
  facts.node = text_of(pod, {"spec", "nodeName"});
  facts.rank = parse_int(annotation_of(pod, index_annotation), 0);
  facts.number = number_at_place(annotation_of(pod, annotations::trials), facts.rank);
  facts.counted_before = parse_int(annotation_of(pod, failures_annotation), 0);
  facts.failures_before = facts.counted_before + parse_int(annotation_of(pod, ignored_annotation), 0);
  facts.created = time_of(pod, {"metadata", "creationTimestamp"}).value_or(Time{});
  facts.deleting = at_path(pod, {"metadata", "deletionTimestamp"}).is_string();
  facts.phase = text_of(pod, {"status", "phase"});
  facts.pod_reason = text_of(pod, {"status", "reason"});
  facts.pod_message = text_of(pod, {"status", "message"});
  read_program(pod, facts);
  facts.trained = at_path(parse_result(facts.end_message), {"done"}) == true;
  facts.denied = advice_on_denied(facts.end_message, at_path(pod, {"spec"}));
  if (const json* scheduled = kube::condition_of(pod, "PodScheduled", "False")) {
    facts.unschedulable = text_of(*scheduled, {"message"});
    if (facts.unschedulable.empty()) facts.unschedulable = text_of(*scheduled, {"reason"});
  }
  facts.scheduled = !facts.node.empty();
  facts.asked_to_end = deletion_of(pod);
  if (const json* disrupted = kube::condition_of(pod, "DisruptionTarget")) {
    const std::optional<Time> at = time_of(*disrupted, {"lastTransitionTime"});
    if (at) facts.asked_to_end = std::min(facts.asked_to_end.value_or(*at), *at);
    facts.disruption = text_of(*disrupted, {"reason"});
    facts.disruption_message = text_of(*disrupted, {"message"});
    if (!facts.finished && facts.phase == "Failed") facts.finished = at;
  }
  if (const Container* other = at_fault(facts); other != nullptr && other->end)
    facts.finished = other->end->finished;
  if (!facts.finished && facts.ended()) {
    if (const json* ready = kube::condition_of(pod, "Ready", "False"))
      facts.finished = time_of(*ready, {"lastTransitionTime"});
    if (!facts.finished) facts.finished = time_of(pod, {"metadata", "deletionTimestamp"});
  }
  if (!facts.pod_finished) facts.pod_finished = facts.finished;
  facts.done = has_ended_well(pod, facts);
  return facts;
}

void read_end(const json& job, JobFacts& facts) {
  for (const auto& [type, end] :
       {std::pair{"Complete", JobFacts::End::succeeded}, {"Failed", JobFacts::End::failed}}) {
    const json* condition = kube::condition_of(job, type);
    if (!condition) continue;
    facts.finished = true;
    std::optional<Time> at = time_of(*condition, {"lastTransitionTime"});
    if (!at) at = time_of(job, {"status", "completionTime"});
    if (end == JobFacts::End::failed && came_with_deletion(at, job)) continue;
    facts.end = end;
    facts.end_reason = text_of(*condition, {"reason"});
    facts.end_message = text_of(*condition, {"message"});
    facts.ended_at = at;
  }
  for (const char* type : {"SuccessCriteriaMet", "FailureTarget"}) {
    const json* condition = kube::condition_of(job, type);
    if (!condition || facts.end != JobFacts::End::none) continue;
    const std::optional<Time> at = time_of(*condition, {"lastTransitionTime"});
    const bool fails = std::string_view(type) == "FailureTarget";
    if (fails && came_with_deletion(at, job)) continue;
    facts.ending = true;
    facts.failing = fails;
    facts.end_reason = text_of(*condition, {"reason"});
    facts.end_message = text_of(*condition, {"message"});
    facts.ended_at = at;
  }
  const json* decision = kube::condition_of(job, "FailureTarget");
  if (!decision) decision = kube::condition_of(job, "Failed");
  if (decision) facts.failure_decided_at = time_of(*decision, {"lastTransitionTime"});
}

JobFacts read_job(const json& job) {
  JobFacts facts;
  facts.name = kube::name_of(job);
  facts.uid = kube::uid_of(job);
  facts.time_limit = number_of(job, {"spec", "activeDeadlineSeconds"}, 0);
  facts.role = label_of(job, labels::role);
  facts.queue = label_of(job, "kueue.x-k8s.io/queue-name");
  facts.completions = std::clamp(number_of(job, {"spec", "completions"}, 1), 0, most_indexes_of_job);
  facts.parallelism = std::clamp(number_of(job, {"spec", "parallelism"}, 1), 0, most_indexes_of_job);
  facts.needed =
      std::max(0, facts.completions - std::max(0, number_of(job, {"spec", "maxFailedIndexes"}, 0)));
  facts.trains = annotation_of(job, annotations::trains) == "true";
  facts.enough = facts.trains ? 1 : std::max(1, facts.needed);
  facts.attempts =
      number_of(job, {"spec", "backoffLimitPerIndex"}, number_of(job, {"spec", "backoffLimit"}, 0)) + 1;
  facts.counts_by_rank = at_path(job, {"spec", "backoffLimitPerIndex"}).is_number();
  facts.active = number_of(job, {"status", "active"}, 0);
  facts.decides = annotation_of(job, annotations::decides) == "true";
  facts.has_success_policy = at_path(job, {"spec", "successPolicy"}).is_object();
  facts.suspended = at_path(job, {"spec", "suspend"}) == true;
  facts.resumed = !facts.suspended && annotation_of(job, annotations::suspended) == "true";
  facts.deleting = at_path(job, {"metadata", "deletionTimestamp"}).is_string();
  facts.replaced_when_terminating = text_of(job, {"spec", "podReplacementPolicy"}) != "Failed";
  facts.completed = Indexes::valid_parts_of(text_of(job, {"status", "completedIndexes"}));
  facts.failed_ranks = Indexes::valid_parts_of(text_of(job, {"status", "failedIndexes"}));
  facts.started = time_of(job, {"status", "startTime"});
  read_end(job, facts);
  return facts;
}

bool is_decided(const JobFacts& job) { return job.end != JobFacts::End::none || job.ending || job.suspended; }

// The newest pod of each rank since the latest start of the Job.
std::map<int, const PodFacts*> newest_pods(const Facts& facts, const JobFacts& job) {
  std::map<int, const PodFacts*> newest;
  for (const PodFacts& pod : facts.pods) {  // oldest first
    if (pod.job == job.name && !is_of_earlier_start(pod, job)) newest[pod.rank] = &pod;
  }
  return newest;
}

// Whether other containers may keep the pod from ending after its program has ended.
bool has_containers_beside(const PodFacts& pod) {
  return std::any_of(pod.others.begin(), pod.others.end(),
                     [](const Container& other) { return other.kind != ContainerKind::init; });
}

// Sets the end that the Job will report a moment later than the pod. If other containers can keep the pod
// alive after its program has failed, the Job may not report the failure for a long time. So in this case,
// the run ends when the program ends.
void expect_end(JobFacts& job, const PodFacts& pod, const char* reason) {
  job.failing = true;
  job.ending = !has_containers_beside(pod);
  if (!job.ending) job.end = JobFacts::End::failed;
  if (!job.ending) job.ended_at = pod.finished;
  job.end_reason = reason;
  job.end_message = "pod /" + pod.name + " failed";
}

// Finds a failure that the Job does not report yet, because its controller has not processed the failed pods,
// or because other containers keep these pods alive.
void expect_failure(Facts& facts) {
  JobFacts& decider = facts.jobs.front();
  if (is_decided(decider)) return;
  for (const PodFacts& pod : facts.pods) {
    if (pod.final && pod.job == decider.name && !is_of_earlier_start(pod, decider))
      return expect_end(decider, pod, "PodFailurePolicy");
  }
  const PodFacts* last = nullptr;
  for (const auto& [rank, pod] : newest_pods(facts, decider)) {
    const bool lost = !decider.completed.contains(rank) && !pod->done && pod->program_failed() &&
                      !pod->fell_with_job && was_last_try(*pod, decider);
    if (!lost) continue;
    decider.failed_ranks.insert(rank);
    if (last == nullptr || has_containers_beside(*pod)) last = pod;
  }
  if (last != nullptr && static_cast<int>(decider.failed_ranks.size()) > decider.completions - decider.needed)
    expect_end(decider, *last, "FailedIndexes");
}

// A trained run stays trained: when enough ranks have ended well, the run has succeeded, whatever the other
// ranks do later, and whatever the Job reports. If a rank was killed between its last report and its own end,
// its result file shows that the run is trained.
bool has_succeeded(const Facts& facts) {
  if (facts.decider() == nullptr) return false;
  const JobFacts& decider = *facts.decider();
  if (decider.end == JobFacts::End::succeeded) return true;
  // If a rank's program ended well, but another container of its pod failed or still runs, the Job does not
  // count the rank. So mlk counts such ranks.
  Indexes done = decider.completed;
  for (const PodFacts& pod : facts.pods) {
    const bool said_by_job = pod.phase == "Succeeded" && pod.deleting;
    if (pod.job == decider.name && pod.done && has_containers_beside(pod) && !said_by_job &&
        !is_of_earlier_start(pod, decider))
      done.insert(pod.rank);
  }
  if (static_cast<int>(done.size()) >= decider.enough) return true;
  return decider.trains && std::ranges::any_of(facts.pods, [](const PodFacts& pod) { return pod.trained; });
}

// Marks all Jobs as succeeded: the run has succeeded, so the conditions of its Jobs do not matter any more.
void reconcile_success(Facts& facts) {
  std::optional<Time> last;
  for (const PodFacts& pod : facts.pods) {
    if (pod.job == facts.jobs.front().name && pod.finished && (pod.trained || pod.done))
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
  const auto store_newest = [](std::map<std::string, Warning>& newest, const std::string& object,
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
    store_newest(facts.warnings, object, warning);
    if (warning.message.starts_with("Failed to pull image"))
      store_newest(facts.failed_pulls, object, warning);
    if (warning.reason == "NodeNotReady") facts.told_not_ready.insert(object);
  }
}

void add_last_words(const std::map<std::string, std::string>& words, PodFacts& pod) {
  for (Container& other : pod.others) {
    for (std::optional<ContainerEnd>* end : {&other.end, &other.last_end}) {
      // If the container was started again, its log does not complete the message of `last_end`.
      if (!*end || (end == &other.last_end && (other.end || other.runs) && !(*end)->message.empty()))
        continue;
      if (const auto found = words.find(last_words_key(pod.uid, other.name)); found != words.end())
        (*end)->message = with_lines_below((*end)->message, found->second);
    }
  }
}

// Call it only if mlk has found no Job of this pod: returns whether the Job is really gone. If `roles` does
// not have the role of the pod, another controller may have made the Job without the labels by which mlk
// finds Jobs. Such a pod has lost its Job only if the pod has no ownerReferences. A pod that is older than
// the run's owner belongs to an earlier run of the same name, which is being deleted.
bool has_lost_its_job(const json& pod, const PodFacts& facts, const std::map<std::string, int>& roles,
                      const std::optional<Time>& owner_made) {
  if (owner_made && facts.created < *owner_made) return false;
  const bool is_owned = !at_path(pod, {"metadata", "ownerReferences"}).empty();
  return !facts.job.empty() && (!is_owned || roles.count(facts.role) > 0);
}

// Removes the failures that the deletion of Jobs has caused, and adds the gone Jobs, which only their pods
// still name.
void reconcile_deletions(Facts& facts) {
  std::map<std::string, JobFacts*> jobs;
  for (JobFacts& job : facts.jobs) jobs[job.name] = &job;
  std::set<std::string> gone;
  for (const PodFacts& pod : facts.pods) {
    if (pod.fell_with_job) jobs.at(pod.job)->failed_ranks.erase(pod.rank);
    if (!pod.left || !gone.insert(pod.job).second) continue;
    JobFacts job;
    job.name = pod.job;
    job.role = pod.role;
    job.deleting = true;
    facts.gone_jobs.push_back(std::move(job));
  }
}

// The input of read_objects(). Sweeps hold their objects in another form than runs, so each overload of
// read_facts() fills this struct.
struct ObjectsToRead {
  const std::vector<json>&jobs, &pods, &events;
  const std::map<std::string, json>& nodes;
  const std::map<std::string, std::string>&last_words, &endings;
  const std::vector<std::string>& deciding;  // names of Jobs; empty: the properties of the Jobs decide
  const std::map<std::string, int>& roles;   // the roles that have a Job
  const std::optional<Time> owner_made;
};

Facts read_objects(const ObjectsToRead& objects, Time now) {
  const auto& [jobs, pods, events, nodes, last_words, endings, deciding, roles, owner_made] = objects;
  Facts facts;
  read_warnings(events, facts);
  for (const json& job : jobs) facts.jobs.push_back(read_job(job));
  // If no Job is marked, the Job with a success policy decides, else the workers' Job, else the only Job.
  const auto any = [&](bool JobFacts::* member) {
    return std::ranges::any_of(facts.jobs, [&](const JobFacts& job) { return job.*member; });
  };
  bool marked = any(&JobFacts::decides);
  if (!marked && any(&JobFacts::has_success_policy)) {
    for (JobFacts& job : facts.jobs) job.decides = job.has_success_policy;
    marked = true;
  }
  for (JobFacts& job : facts.jobs) {
    if (!marked) job.decides = job.role == "worker" || facts.jobs.size() == 1;
    if (!deciding.empty()) job.decides = std::ranges::find(deciding, job.name) != deciding.end();
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
    PodFacts& read = facts.pods.back();
    if (job != jobs.end() && read.program_failed()) {
      read.action = policy_action(*job, pod);
      read.fell_with_job = came_with_deletion(read.finished, *job);
    }
    read.final = read.action == PolicyAction::fail_job && !read.fell_with_job;
    read.left = job == jobs.end() && has_lost_its_job(pod, read, roles, owner_made);
    add_last_words(last_words, read);
    if (const auto longer = endings.find(read.uid); longer != endings.end())
      read.end_message = lacks_the_error(program_text(read.end_message))
                             ? longer->second
                             : with_lines_below(read.end_message, longer->second);
    LossSigns signs = signs_of_pod(pod, now);
    signs.told_not_ready = facts.told_not_ready.count(read.uid) > 0;
    if (const auto node = nodes.find(read.node); node != nodes.end()) signs.node = word_of_node(node->second);
    read.node_lost = is_node_lost(signs);
  }
  std::sort(facts.pods.begin(), facts.pods.end(), [](const PodFacts& a, const PodFacts& b) {
    return std::tie(a.created, a.failures_before, a.name) < std::tie(b.created, b.failures_before, b.name);
  });
  reconcile_deletions(facts);
  if (facts.decider() != nullptr) expect_failure(facts);
  if (has_succeeded(facts)) reconcile_success(facts);
  const bool over = facts.decider() != nullptr && is_decided(*facts.decider());
  for (JobFacts& job : facts.jobs) job.run_over = over;
  return facts;
}

}  // namespace

Facts read_facts(const RunObjects& objects, Time now) {
  return read_objects({objects.jobs, objects.pods, objects.events, objects.nodes, objects.last_words,
                       objects.endings, jobs_made(objects.owner), roles_of(objects.owner),
                       time_of(objects.owner, {"metadata", "creationTimestamp"})},
                      now);
}

Facts read_facts(const std::vector<json>& jobs, const std::vector<json>& pods,
                 const std::vector<json>& events, Time now) {
  return read_objects({jobs, pods, events, {}, {}, {}, {}, {}, {}}, now);
}

}  // namespace mlk
