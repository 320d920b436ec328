// The state of a run, computed only from its objects.
//
//   objects -> read_facts()   Jobs, pods and events as plain values (run/facts)
//           -> ranks          the pods of each rank, and its state (ranks.h)
//           -> causes         why ranks are not running; the heaviest one is shown (rank_cause.h)
//           -> phase          decide_phase(): a table whose first matching line decides
//
// mlk calls observe() after each read of the objects: in the commands status, ls, wait, logs -f, stop and
// submit, and for the trials of sweeps.
//
// Example: a Job has two completions, the pod of rank 0 runs, and rank 1 has no pod. The phase is Scheduling.
// If a quota forbids the missing pod, an event about the Job gives this reason.
//
// Invariants: the same objects and time give the same answer on every machine. A record of a run's end
// overrides what its pods report later, except for ranks that had not ended before the record was written.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/facts.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/facts/pods_left.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/state/diagnosis.h"
#include "cli/run/state/outputs.h"
#include "cli/run/state/rank_cause.h"
#include "cli/run/state/ranks.h"
#include "cli/run/state/record.h"
#include "cli/run/state/recorded.h"
#include "cli/run/state/report.h"
#include "cli/run/state/status.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::seconds;

constexpr seconds submit_grace{60};  // an owner younger than this may still be getting its objects

// The data of one call of observe().
class Observation {
 public:
  Observation(const RunObjects& objects, Time now)
      : objects_(objects), now_(now), facts_(read_facts(objects, now)) {}

  RunStatus run() {
    describe_owner();
    const std::optional<RunStatus> recorded = recorded_status(objects_.owner);
    ranks_ = collect_ranks(facts_);
    left_ = collect_ranks_left(facts_);
    count_pods_left();
    Report report = newest_report(facts_, objects_);
    if (recorded && is_final(recorded->phase)) return finished(*recorded, report);
    ends_ = collect_ends(ranks_, stopped_at_.has_value());
    find_short_jobs();
    find_causes();
    status_.result = std::move(report.result);
    status_.result_at = report.at;
    if (status_.steps == 0)
      status_.steps = count_of(status_.result, {"steps"}, 0);  // with epochs, the runtime counts the steps
    status_.absence = absence();
    decide_phase();
    describe_failures();
    describe_ranks();
    describe_times();
    if (recorded) fill_from(*recorded, status_);
    status_.last_checkpoint = checkpoint_in(status_.result);
    status_.checkpoint = checkpoint_place(objects_.owner, status_.result);
    status_.outputs = outputs_of(objects_.owner);
    return status_;
  }

 private:
  void describe_owner() {
    const json& owner = objects_.owner;
    status_.run = kube::name_of(owner);
    if (status_.run.empty() && !objects_.jobs.empty())
      status_.run = kube::label_of(objects_.jobs.front(), labels::run);
    status_.name = kube::label_of(owner, labels::name);
    status_.mode = kube::label_of(owner, labels::mode);
    status_.created = time_of(owner, {"metadata", "creationTimestamp"});
    const json experiment = json_or_null(text_of(owner, {"data", "experiment"}));
    if (experiment.is_object()) status_.experiment = experiment;
    status_.commit = commit_of(text_of(owner, {"data", "code"}));
    status_.submitter = submitter_of(owner);
    status_.tags = tags_of(owner);
    status_.note = kube::annotation_of(owner, annotations::note);
    status_.steps = count_of(experiment, {"train", "steps"}, 0);
    if (!experiment.is_object()) status_.steps = steps_of(owner);
    owner_deleting_ = at_path(owner, {"metadata", "deletionTimestamp"}).is_string();
    const std::string stopped = kube::annotation_of(owner, annotations::stopped);
    const bool resumed = facts_.decider() && facts_.decider()->resumed;  // it trains despite the stop mark
    if (!stopped.empty() && !resumed) stopped_at_ = parse_time(stopped).value_or(now_);
  }

  void set(Phase phase, std::string why = "") {
    status_.phase = phase;
    status_.why = std::move(why);
  }

  // The table: the first line that applies decides. A trained run stays trained: a Job counts as succeeded as
  // soon as enough of its ranks have ended well (see JobFacts), and later losses change nothing.
  //
  //   enough ranks of the deciding Job ended well,
  //   or the Job says so                                              Succeeded
  //   the deciding Job failed, or will fail as its pods show
  //   (JobFacts::end)                                                 Failed
  //   the deciding Job will end, and its remaining pods are lost      Succeeded or Failed
  //   the owner is marked as stopped, and no other program has
  //   resumed the deciding Job                                        Stopped
  //   the deciding Job is missing, or was not made yet                Incomplete
  //   the run, or its deciding Job, is being deleted                  by the states of its ranks
  //   the deciding Job is suspended by another program                Queued
  //   the deciding Job will end, and its pods are being removed       Running
  //   otherwise                                                       by the states of its ranks
  void decide_phase() {
    const JobFacts* decider = facts_.decider();
    if (decider && decider->end == JobFacts::End::succeeded) return set(Phase::succeeded, what_causes_say());
    if (decider && decider->end == JobFacts::End::failed) return set(Phase::failed, why_failed(*decider));
    if (decider && decider->ending && decider->ended_at && only_lost_pods_are_left(*decider)) {
      return decider->failing ? set(Phase::failed, why_failed(*decider))
                              : set(Phase::succeeded, what_causes_say());
    }
    if (stopped_at_) return set(Phase::stopped, why_stopped());
    if (!decider || status_.absence != Absence::none) return set(Phase::incomplete, why_incomplete());
    if (owner_deleting_ || decider->deleting) return set(phase_of_ranks(), "it is being deleted");
    if (decider->suspended) return set(Phase::queued, why_queued(*decider));
    if (decider->ending)
      return set(Phase::running, decider->failing ? "failing: " + why_failed(*decider) : "it is ending");
    set(phase_of_ranks());
    std::vector<std::string> reasons = why_lacking();
    if (std::string why = why_not_running(); !why.empty()) reasons.insert(reasons.begin(), std::move(why));
    status_.why = join(reasons, "; ");
  }

  // Once all objects were made, only the deciding Job matters, since the run may continue without its other
  // Jobs.
  Absence absence() const {
    const bool made = !jobs_made(objects_.owner).empty();
    std::set<std::string> names;
    for (const JobFacts& job : facts_.jobs) names.insert(job.name);
    return absence_of({.there = facts_.decider() != nullptr && (made || missing_roles().empty()),
                       .made = made,
                       .found_gone = are_gone(objects_.owner, names),
                       .run_deleting = owner_deleting_,
                       .run_young = is_young()});
  }

  std::vector<std::string> why_lacking() const {
    std::vector<std::string> reasons;
    for (const std::string& role : missing_roles())
      reasons.push_back("the Job of its role " + role + " is gone");
    if (objects_.service_is_gone)
      reasons.push_back(
          "its Service is gone, so ranks do not find each other; submit the same file again to make it");
    return reasons;
  }

  Phase phase_of_ranks() const {
    if (short_jobs_.empty()) return Phase::running;
    bool failed_before = false, unscheduled = false;
    for (const Rank& rank : ranks_) {
      if (rank.restarts > 0 || rank.state == RankState::restarting || rank.state == RankState::lost)
        failed_before = true;
      if (rank.state == RankState::absent || rank.state == RankState::unscheduled) unscheduled = true;
    }
    if (failed_before) return Phase::restarting;
    return unscheduled ? Phase::scheduling : Phase::starting;
  }

  // Finds the Jobs that have fewer running (or done) ranks than the run needs. If a rank has failed for good
  // and its Job is not the deciding Job, the run continues without this rank.
  void find_short_jobs() {
    std::map<const JobFacts*, int> good;
    for (const Rank& rank : ranks_) {
      const bool done_without = rank.state == RankState::failed && !rank.job->decides;
      if (rank.state == RankState::running || rank.state == RankState::succeeded || done_without)
        ++good[rank.job];
    }
    for (const JobFacts& job : facts_.jobs) {
      if (good[&job] < job.needed && job.end != JobFacts::End::succeeded) short_jobs_.insert(&job);
    }
  }

  void find_causes() {
    for (Rank& rank : ranks_) rank.cause = cause_of(rank, facts_, now_);
    for (Rank& rank : left_) rank.cause = cause_of(rank, facts_, now_);
  }

  std::string why_not_running() {
    std::vector<Cause> causes;
    for (const Rank& rank : ranks_) {
      if (rank.cause.weight == 0) continue;
      causes.push_back(rank.cause);
      if (short_jobs_.count(rank.job)) causes.back().weight += cause_weight::short_of_ranks;
    }
    status_.cannot_start = std::ranges::any_of(causes, [](const Cause& cause) { return cause.cannot_start; });
    if (causes.empty() && status_.phase == Phase::scheduling && facts_.pods.empty())
      return "the cluster has not made its pods yet";
    return heaviest(std::move(causes));
  }

  // The reason of a succeeded run: only problems of containers beside its programs, if there are any.
  std::string what_causes_say() const {
    std::vector<Cause> causes;
    for (const Rank& rank : ranks_) {
      if (rank.cause.weight == cause_weight::beside) causes.push_back(rank.cause);
    }
    return heaviest(std::move(causes));
  }

  static std::string heaviest(std::vector<Cause> causes) {
    causes = merge_causes(std::move(causes));
    if (causes.empty()) return "";
    std::string why = one_line(causes[0]);
    if (causes.size() > 1) why += "; " + one_line(causes[1]);
    if (causes.size() > 2) why += fmt::format("; and {} more", causes.size() - 2);
    return why;
  }

  // The Job reports its end only after the end of its last pod. Pods on a lost node do not report until the
  // node is back, but such pods no longer change the outcome.
  bool only_lost_pods_are_left(const JobFacts& job) const {
    return std::all_of(facts_.pods.begin(), facts_.pods.end(), [&](const PodFacts& pod) {
      return pod.job != job.name || pod.ended() || pod.node_lost;
    });
  }

  // The roles in the owner ({"worker": 5}) that have no Job: submit may have been cut off between two Jobs.
  std::vector<std::string> missing_roles() const {
    std::vector<std::string> missing;
    for (const auto& [role, count] : roles_of(objects_.owner)) {
      const bool there = std::any_of(facts_.jobs.begin(), facts_.jobs.end(),
                                     [&](const JobFacts& job) { return job.role == role; });
      if (!there && count != 0) missing.push_back(role);
    }
    return missing;
  }

  bool is_young() const { return status_.created && now_ - *status_.created < submit_grace; }

  std::string why_incomplete() const {
    if (owner_deleting_) return "it is being deleted";
    if (status_.absence == Absence::gone) return std::string(job_is_gone) + what_is_left();
    if (status_.absence == Absence::unsure)
      return "its Job is not there; one more look says whether it is gone";
    if (status_.absence == Absence::not_yet) return "its objects are being created";
    // The pods that are left show that their Job was made before, so submit does not make it again.
    if (status_.pods_left > 0) return "a Job of it is gone" + what_is_left();
    return "submit was cut off before the cluster had all of it; submit the same file again to complete it";
  }

  void count_pods_left() {
    const std::vector<const PodFacts*> pods = pods_left(facts_);
    status_.pods_left = static_cast<int>(pods.size());
    status_.pods_ending = static_cast<int>(
        std::count_if(pods.begin(), pods.end(), [](const PodFacts* pod) { return pod->deleting; }));
  }

  // "; 2 of its pods still run; deleting the run ends them"; empty if no pod is left without its Job.
  std::string what_is_left() const {
    const int ending = status_.pods_ending, going_on = status_.pods_left - ending;
    if (going_on == 1) return "; one of its pods still runs; deleting the run ends it";
    if (going_on > 1) return fmt::format("; {} of its pods still run; deleting the run ends them", going_on);
    if (ending == 0) return "";
    return fmt::format("; {} of its pods {} still ending", ending == 1 ? "one" : std::to_string(ending),
                       ending == 1 ? "is" : "are");
  }

  std::string why_stopped() const {
    if (status_.absence == Absence::gone) return "its Job is gone, so it cannot go on" + what_is_left();
    const auto live = std::ranges::count_if(facts_.pods, [](const PodFacts& pod) { return !pod.ended(); });
    if (live == 0) return "";
    return fmt::format("stopping: {} {} still ending", live, live == 1 ? "pod is" : "pods are");
  }

  std::string why_queued(const JobFacts& job) const {
    return job.queue.empty() ? "its Job is suspended" : "waits in queue " + job.queue;
  }

  std::string why_failed(const JobFacts& decider) const {
    if (decider.end_reason == "DeadlineExceeded") {
      if (decider.time_limit == 0) return "the time limit passed";
      return "the time limit of " + format_duration(seconds(decider.time_limit)) + " passed";
    }
    const PodEnd* cause = first_cause(ends_, decider);
    if (!cause) return decider.end_message.empty() ? decider.end_reason : printable(decider.end_message);
    const Failure& failure = cause->failure;
    std::string why = fmt::format("{}/{}: {}", failure.role, failure.rank, what_happened(failure));
    const bool exhausted = decider.failed_ranks.contains(failure.rank) && cause->pod->job == decider.name;
    if (exhausted && failure.attempts > 1 && !failure.disruption &&
        decider.end_reason != "PodFailurePolicy") {
      why += fmt::format(" ({} of {} tries failed)", failure.attempts, failure.attempts);
    }
    return why;
  }

  void describe_failures() {
    for (const Rank& rank : ranks_) status_.restarts += rank.restarts;
    if (ends_.empty() || status_.phase == Phase::succeeded) return;
    const JobFacts* decider = facts_.decider();
    const PodEnd* first =
        status_.phase == Phase::failed && decider ? first_cause(ends_, *decider) : &ends_.front();
    if (first && !first->cascade) status_.first_failure = first->failure;
    const auto last =
        std::find_if(ends_.rbegin(), ends_.rend(), [](const PodEnd& end) { return !end.cascade; });
    if (last != ends_.rend()) status_.last_failure = last->failure;
  }

  void describe_ranks() {
    for (const Rank& rank : ranks_) describe_rank(rank);
    for (const Rank& rank : left_) describe_rank(rank);
  }

  void describe_rank(const Rank& rank) {
    RankStatus out;
    out.role = rank.job->role;
    out.rank = rank.number;
    out.state = state_name(rank);
    out.restarts = rank.restarts;
    out.reason = rank.cause.text;
    if (!rank.pods.empty()) out.meanwhile = what_keeps_pod(*rank.pods.back());
    if (out.reason == out.meanwhile) out.reason.clear();
    if (!rank.pods.empty()) {
      const PodFacts& pod = *rank.pods.back();
      out.pod = pod.name;
      out.node = pod.node;
      out.since = pod.ended() || pod.exit_code ? pod.finished : pod.started ? pod.started : pod.created;
      if (rank.state == RankState::running && pod.deleting) out.reason = "it is ending";
    }
    const bool over = rank.job->ending || rank.job->end != JobFacts::End::none || rank.job->suspended;
    // A suspended Job that never started makes its pods later, so it cannot have lost them.
    const bool had_pods = over && !(rank.job->suspended && !rank.job->started);
    if (rank.pods.empty() && rank.state == RankState::absent && over)
      out.reason = had_pods ? "its pod is gone" : "it has no pod yet";
    // If a rank was lost and came back, only its lost pod may be left after a stop. Such a rank is shown as
    // Stopped too.
    const bool live = !rank.pods.empty() && !rank.pods.back()->ended();
    const bool settled = rank.state == RankState::succeeded || rank.state == RankState::failed;
    if (status_.phase == Phase::stopped && !live && !settled) {
      out.state = "Stopped";
      out.reason.clear();
    }
    status_.ranks.push_back(std::move(out));
  }

  void describe_times() {
    for (const PodFacts& pod : facts_.pods) {
      if (pod.started && (!status_.started || *pod.started < *status_.started)) status_.started = pod.started;
    }
    if (status_.phase == Phase::stopped) status_.ended = stopped_at_;
    if (facts_.decider() == nullptr) return;
    const JobFacts& decider = *facts_.decider();
    if (!status_.started && decider.end != JobFacts::End::none) status_.started = decider.started;
    if (is_final(status_.phase)) status_.ended = decider.ended_at;
  }

  // The record was written when the end of the run was decided. Servers end after the workers. So for ranks
  // that had not ended by then, the pods and Jobs have newer states.
  RunStatus finished(RunStatus recorded, const Report& report) {
    if (recorded.result.is_null()) {
      recorded.result = report.result;
      recorded.result_at = report.at;
    }
    recorded.checkpoint = checkpoint_place(objects_.owner, recorded.result);
    recorded.outputs = outputs_of(objects_.owner);
    recorded.experiment = std::move(status_.experiment);
    recorded.commit = std::move(status_.commit);
    recorded.submitter = std::move(status_.submitter);
    recorded.tags = std::move(status_.tags);
    recorded.note = std::move(status_.note);
    if (recorded.steps == 0) recorded.steps = status_.steps;
    recorded.pods_left = status_.pods_left;
    recorded.pods_ending = status_.pods_ending;
    find_causes();
    describe_ranks();
    use_newer_ranks(recorded.ranks, status_.ranks);
    return recorded;
  }

  const RunObjects& objects_;
  const Time now_;
  const Facts facts_;
  RunStatus status_;
  std::vector<Rank> ranks_, left_;  // left_: ranks of Jobs that are gone
  std::vector<PodEnd> ends_;
  std::set<const JobFacts*> short_jobs_;
  std::optional<Time> stopped_at_;
  bool owner_deleting_ = false;
};

}  // namespace

RunStatus observe(const RunObjects& objects, Time now) { return Observation(objects, now).run(); }

}  // namespace mlk
