#include "cli/local/jobs/reconcile.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "cli/local/jobs/job_pod.h"
#include "cli/local/jobs/job_policy.h"
#include "cli/util/indexes.h"
#include "cli/util/json_path.h"

namespace mlk::local {

using nlohmann::json;

namespace {

// A sync of one Job, in the order of JobSync::run(). The rules are those of Kubernetes' Job controller
// (KEP-2307, KEP-3329, KEP-3850, KEP-3939, KEP-3998):
//
//   1. count_flushed()   pods that have lost their finalizer are counted: they move from
//                        status.uncountedTerminatedPods into the counts
//   2. the verdict       the Job becomes Complete or Failed: by completions, by a rule of podFailurePolicy,
//                        by backoffLimit, by its deadline, or by successPolicy
//   3. pods to delete    unfinished pods of a Job that has ended or is suspended; otherwise the pods above
//                        parallelism, beyond completions, or of a failed index
//   4. pods to create    one for each index without a pod, after the back-off for failures of the index
//   5. the status        counts, indexes and conditions
//
// The invariant: a finished pod is counted exactly once. It is first listed as uncounted, then loses its
// finalizer, then is counted. Each step is stored before the next, so a crash between two steps neither loses
// a pod nor counts it twice.

// Ranks that end within this time count as ending together. One second is too short, since the times in a
// pod's status are whole seconds.
constexpr std::chrono::seconds gathering{2};

constexpr std::chrono::seconds first_delay{10};
constexpr std::chrono::seconds longest_delay{600};

// A failure time in the future comes from a clock that was set back later. The real age of the failure is
// unknown, so the index does not wait.
Time back_off(Time since, int failures, Time now) {
  if (since > now) return now;
  auto delay = first_delay;
  for (int i = 1; i < failures && delay < longest_delay; ++i) delay *= 2;
  return since + std::min(delay, longest_delay);
}

struct Verdict {
  std::string type;  // the final condition of the Job: Complete or Failed
  std::string reason, message;
};

// One sync of one Job.
class JobSync {
 public:
  JobSync(const json& job, const std::vector<const json*>& pods, Time now)
      : spec_(job.at("spec")),
        now_(now),
        status_(job.value("status", json::object())),
        completions_(spec_.at("completions").get<int>()),
        parallelism_(spec_.at("parallelism").get<int>()),
        by_index_(spec_.contains("backoffLimitPerIndex")),
        only_failed_(spec_.value("podReplacementPolicy", "") == "Failed"),
        completed_(Indexes::parse(status_.value("completedIndexes", "")).value_or(Indexes())),
        failed_indexes_(Indexes::parse(status_.value("failedIndexes", "")).value_or(Indexes())) {
    for (const json* pod : pods) pods_.push_back(JobPod::of(*pod, only_failed_));
  }

  JobActions run() {
    if (status_.contains("startTime")) status_["startTime"] = past_time(status_.at("startTime"), now_);
    count_flushed();
    completed_.drop_from(completions_);  // an elastic Job may have become smaller
    failed_indexes_.drop_from(completions_);
    find_failures();
    const std::optional<Verdict> verdict = decide();
    count_finished(verdict.has_value());
    if (verdict) {
      end(*verdict);
    } else if (spec_.value("suspend", false)) {
      suspend();
    } else {
      go_on();
    }
    write_numbers();
    actions_.status = status_;
    return actions_;
  }

 private:
  bool active(const JobPod& pod) const { return pod.active() && pod.index < completions_; }

  // Counts the pods that were listed as uncounted and have lost their finalizer.
  void count_flushed() {
    json& uncounted = status_["uncountedTerminatedPods"];
    if (!uncounted.is_object()) uncounted = json::object();
    if (uncounted.empty()) return;
    std::map<std::string_view, const JobPod*> tracked;
    for (const JobPod& pod : pods_) {
      if (pod.tracked) tracked.emplace(pod.uid, &pod);
    }
    for (const char* kind : {"succeeded", "failed"}) {
      json rest = json::array();
      for (const json& uid : uncounted.value(kind, json::array())) {
        const auto pod = tracked.find(text_of(uid, {}));
        if (pod != tracked.end()) {
          rest.push_back(uid);
          actions_.release.push_back(pod->second->name);
        } else if (std::string(kind) == "failed") {
          status_["failed"] = status_.value("failed", 0) + 1;
        }
      }
      uncounted[kind] = rest;
      if (rest.empty()) uncounted.erase(kind);
    }
  }

  void find_failures() {
    for (JobPod& pod : pods_) {
      if (pod.index < 0 || pod.index >= completions_) continue;
      if (pod.succeeded && pod.tracked) completed_.insert(pod.index);
      if (!pod.failed) {
        int& carried = carried_on_[pod.index];
        carried = std::max(carried, pod.all_failures());
        continue;
      }
      pod.rule = match_failure(spec_, *pod.object);
      if (pod.rule.action == FailureAction::fail_job && pod.tracked && !failing_) failing_ = pod.rule.message;
      const JobPod*& last = last_failure_[pod.index];
      if (last == nullptr || pod.all_failures() >= last->all_failures()) last = &pod;
    }
    if (!by_index_) return;
    const int limit = spec_.at("backoffLimitPerIndex").get<int>();
    for (const auto& [index, pod] : last_failure_) {
      if (completed_.contains(index)) continue;
      if (pod->tracked && (pod->failures_after() > limit || pod->rule.action == FailureAction::fail_index))
        failed_indexes_.insert(index);
    }
  }

  // Whether the pod must keep its finalizer, which keeps the pod in existence. The failed pod of an index
  // stores the number of failures of the index until the replacement pod stores it. A suspended Job keeps no
  // pods, since the Job itself ends its pods. When the Job resumes, the pods that it ended do not count as
  // failures of the ranks.
  bool is_held(const JobPod& pod) const {
    if (spec_.value("suspend", false)) return false;
    if (!by_index_ || pod.index < 0 || failed_indexes_.contains(pod.index) || completed_.contains(pod.index))
      return false;
    const auto last = last_failure_.find(pod.index);
    if (last == last_failure_.end() || last->second != &pod) return false;
    const auto carried = carried_on_.find(pod.index);
    return carried == carried_on_.end() || carried->second <= pod.all_failures();
  }

  void count_finished(bool ended) {
    json& uncounted = status_["uncountedTerminatedPods"];
    const std::set<std::string> known(actions_.release.begin(), actions_.release.end());
    for (const JobPod& pod : pods_) {
      if (!pod.tracked || known.contains(pod.name)) continue;
      if (pod.index < 0 || pod.index >= completions_) {
        // The Job does not count a pod without an index, or a pod whose index is beyond the size of a Job
        // that was made smaller.
        if (pod.finished || pod.deleted) actions_.release.push_back(pod.name);
      } else if (pod.succeeded) {
        uncounted["succeeded"].push_back(pod.uid);
        actions_.release.push_back(pod.name);
      } else if (pod.failed && (ended || !is_held(pod))) {
        if (pod.rule.action != FailureAction::ignore) uncounted["failed"].push_back(pod.uid);
        actions_.release.push_back(pod.name);
      }
    }
  }

  int failures() const {
    int count = status_.value("failed", 0);
    for (const JobPod& pod : pods_) {
      if (pod.failed && pod.tracked && pod.rule.action != FailureAction::ignore) ++count;
    }
    return count;
  }

  // Whether and how the Job ends. A decision that is stored in the status does not change.
  std::optional<Verdict> decide() {
    for (const json& condition : status_.value("conditions", json::array())) {
      if (condition.value("status", "") != "True") continue;
      const std::string type = condition.value("type", "");
      if (type == "SuccessCriteriaMet" || type == "FailureTarget") {
        return Verdict{type == "FailureTarget" ? "Failed" : "Complete", condition.value("reason", ""),
                       condition.value("message", "")};
      }
    }
    if (failing_) return Verdict{"Failed", "PodFailurePolicy", *failing_};
    // Kubernetes' Job controller has the same order: it first fails a Job with failed indexes, and then
    // checks whether enough other indexes have succeeded.
    if (by_index_ && spec_.contains("maxFailedIndexes") &&
        static_cast<int>(failed_indexes_.size()) > spec_.at("maxFailedIndexes").get<int>()) {
      return Verdict{"Failed", "MaxFailedIndexesExceeded",
                     "Job has exceeded the specified maximal number of failed indexes"};
    }
    if (!failed_indexes_.empty() &&
        static_cast<int>(completed_.size() + failed_indexes_.size()) >= completions_)
      return Verdict{"Failed", "FailedIndexes", "Job has failed indexes"};
    const auto rule = matched_success_rule(spec_, completed_);
    if (rule && ranks_may_end_together()) {
      check_again(*last_success() + gathering);
    } else if (rule) {
      return Verdict{"Complete", "SuccessPolicy", "Matched rules at index " + std::to_string(*rule)};
    }
    if (failures() > spec_.at("backoffLimit").get<int>()) {
      return Verdict{"Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"};
    }
    const auto start = parse_time(status_.value("startTime", ""));
    if (start && spec_.contains("activeDeadlineSeconds") && !spec_.value("suspend", false)) {
      const Time deadline = later(*start, spec_.at("activeDeadlineSeconds").get<long>());
      if (now_ >= deadline)
        return Verdict{"Failed", "DeadlineExceeded", "Job was active longer than specified deadline"};
      check_again(deadline);
    }
    if (static_cast<int>(completed_.size()) < completions_) return std::nullopt;
    return Verdict{"Complete", "CompletionsReached", "Reached expected number of succeeded pods"};
  }

  std::optional<Time> last_success() const {
    std::optional<Time> last;
    for (const JobPod& pod : pods_) {
      if (pod.succeeded && pod.ended) last = std::max(last.value_or(*pod.ended), *pod.ended);
    }
    return last;
  }

  // Whether to wait for other ranks, since the ranks of a training run end almost together. Kubernetes' Job
  // controller collects the changes of one second before it acts. So it counts all these ranks, and does not
  // remove the pods and logs of the last ranks.
  bool ranks_may_end_together() const {
    const std::optional<Time> last = last_success();
    return static_cast<int>(completed_.size()) < completions_ && last && now_ < *last + gathering;
  }

  void end(const Verdict& verdict) {
    const bool good = verdict.type == "Complete";
    set_condition(good ? "SuccessCriteriaMet" : "FailureTarget", "True", verdict.reason, verdict.message);
    bool left = false;
    for (const JobPod& pod : pods_) {
      if (pod.finished) continue;
      left = true;
      if (!pod.deleted) remove(pod);
    }
    if (!status_["uncountedTerminatedPods"].empty() || !actions_.release.empty() || left) return;
    set_condition(verdict.type, "True", verdict.reason, verdict.message);
    if (good) status_["completionTime"] = format_time(now_);
    actions_.events.push_back({good ? "Normal" : "Warning", good ? "Completed" : verdict.reason,
                               good ? "Job completed" : verdict.message});
  }

  // The Job does not count these pods, since they lose their finalizers before they are removed.
  void suspend() {
    for (const JobPod& pod : pods_) {
      if (!pod.active()) continue;
      if (pod.tracked) actions_.release.push_back(pod.name);
      remove(pod);
    }
    if (set_condition("Suspended", "True", "JobSuspended", "Job suspended")) {
      actions_.events.push_back({"Normal", "Suspended", "Job suspended"});
    }
    status_.erase("startTime");
  }

  void go_on() {
    if (has_condition("Suspended", "True")) {
      set_condition("Suspended", "False", "JobResumed", "Job resumed");
      actions_.events.push_back({"Normal", "Resumed", "Job resumed"});
    }
    if (!status_.contains("startTime")) {
      status_["startTime"] = format_time(now_);
      if (spec_.contains("activeDeadlineSeconds"))
        check_again(later(now_, spec_.at("activeDeadlineSeconds").get<long>()));
    }
    std::map<int, int> occupied;  // index -> number of pods that prevent a new pod
    std::vector<const JobPod*> running;
    int terminating = 0;
    for (const JobPod& pod : pods_) {
      if (pod.index >= completions_ && pod.active()) remove(pod);
      if (!active(pod) && !(pod.terminating() && only_failed_)) continue;
      ++occupied[pod.index];
      if (active(pod)) running.push_back(&pod);
      if (!active(pod)) ++terminating;
    }
    std::sort(running.begin(), running.end(),
              [](const JobPod* a, const JobPod* b) { return a->index > b->index; });
    for (std::size_t i = 0; i < running.size(); ++i) {
      const bool surplus = static_cast<int>(running.size() - i) > parallelism_;
      if (surplus || failed_indexes_.contains(running[i]->index)) remove(*running[i]);
    }
    create_missing(occupied, parallelism_ - static_cast<int>(running.size()) - terminating);
  }

  void create_missing(const std::map<int, int>& occupied, int room) {
    for (int index = completed_.first_absent(0); index < completions_ && room > 0;
         index = completed_.first_absent(index + 1)) {
      if (occupied.contains(index) || failed_indexes_.contains(index)) continue;
      NewPod pod{index, 0, 0};
      Time due = now_;
      const auto last = last_failure_.find(index);
      if (by_index_ && last != last_failure_.end()) {
        pod.failures = last->second->failures_after();
        pod.ignored = last->second->ignored_after();
        due = back_off(last->second->ended.value_or(now_), pod.failures + pod.ignored, now_);
      } else if (!by_index_) {
        due = common_due();
      }
      if (due > now_) {
        check_again(due);
        continue;
      }
      actions_.create.push_back(pod);
      --room;
    }
  }

  // Without backoffLimitPerIndex, all indexes wait until the same time. Each failure since the last success
  // makes the wait longer.
  Time common_due() const {
    const std::optional<Time> success = last_success();
    std::optional<Time> failure;
    int count = 0;
    for (const JobPod& pod : pods_) {
      if (!pod.failed || !pod.ended || (success && *pod.ended <= *success)) continue;
      ++count;
      failure = std::max(failure.value_or(*pod.ended), *pod.ended);
    }
    return failure ? back_off(*failure, count, now_) : now_;
  }

  void write_numbers() {
    int active_count = 0, ready = 0, terminating = 0;
    const std::set<std::string> going(actions_.remove.begin(), actions_.remove.end());
    for (const JobPod& pod : pods_) {
      if (pod.finished) continue;
      const bool goes = going.contains(pod.name);
      if (pod.active() && !goes) ++active_count;
      if (pod.active() && !goes && pod.ready) ++ready;
      if (pod.terminating() || goes) ++terminating;
    }
    active_count += static_cast<int>(actions_.create.size());
    const auto put = [&](const char* field, int value, bool always) {
      status_[field] = value;
      if (value == 0 && !always) status_.erase(field);
    };
    put("active", active_count, false);
    put("ready", ready, true);
    put("terminating", terminating, true);
    put("succeeded", static_cast<int>(completed_.size()), false);
    if (!completed_.empty()) status_["completedIndexes"] = completed_.text();
    if (by_index_) status_["failedIndexes"] = failed_indexes_.text();
  }

  void remove(const JobPod& pod) {
    actions_.remove.push_back(pod.name);
    actions_.events.push_back({"Normal", "SuccessfulDelete", "Deleted pod: " + pod.name});
  }

  void check_again(Time time) { actions_.again = std::min(actions_.again.value_or(time), time); }

  bool has_condition(const std::string& type, const std::string& value) const {
    const json conditions = status_.value("conditions", json::array());
    return std::any_of(conditions.begin(), conditions.end(), [&](const json& c) {
      return c.value("type", "") == type && c.value("status", "") == value;
    });
  }

  // True if the condition has changed.
  bool set_condition(const std::string& type, const std::string& value, const std::string& reason,
                     const std::string& message) {
    if (has_condition(type, value)) return false;
    const std::string time = format_time(now_);
    const json condition = {{"type", type},       {"status", value},       {"reason", reason},
                            {"message", message}, {"lastProbeTime", time}, {"lastTransitionTime", time}};
    json& conditions = status_["conditions"];
    for (json& existing : conditions) {
      if (existing.value("type", "") == type) {
        existing = condition;
        return true;
      }
    }
    conditions.push_back(condition);
    return true;
  }

  const json& spec_;
  const Time now_;
  json status_;
  const int completions_;
  const int parallelism_;
  const bool by_index_;
  const bool only_failed_;
  std::vector<JobPod> pods_;
  Indexes completed_;
  Indexes failed_indexes_;
  std::map<int, const JobPod*> last_failure_;
  std::map<int, int> carried_on_;  // index -> the highest all_failures() of a pod that has not failed
  std::optional<std::string> failing_;
  JobActions actions_;
};

}  // namespace

JobActions reconcile(const json& job, const std::vector<const json*>& pods, Time now) {
  return JobSync(job, pods, now).run();
}

bool is_finished(const json& job) {
  for (const json& condition : job.value("/status/conditions"_json_pointer, json::array())) {
    const std::string type = condition.value("type", "");
    if ((type == "Complete" || type == "Failed") && condition.value("status", "") == "True") return true;
  }
  return false;
}

}  // namespace mlk::local
