#include "sweeps/observe.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/diagnosis.h"
#include "cli/run/facts.h"
#include "cli/run/indexes.h"
#include "cli/run/labels.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/control.h"
#include "sweeps/ledger.h"
#include "sweeps/ledger_store.h"
#include "sweeps/results.h"
#include "sweeps/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr char hopeless_reason[] = "MaxFailedIndexesExceeded";

class SweepObservation {
 public:
  SweepObservation(const SweepObjects& objects, Time now)
      : objects_(objects),
        now_(now),
        batches_(batches_of(objects)),
        facts_(read_facts({objects.owner, objects.jobs, objects.pods, {}, {}})) {}

  SweepStatus run() {
    status_.sweep = kube::name_of(objects_.owner);
    status_.name = kube::label_of(objects_.owner, labels::name);
    status_.mode = kube::label_of(objects_.owner, labels::mode);
    status_.created = time_of(objects_.owner, {"metadata", "creationTimestamp"});
    status_.record = read_record(objects_.owner);
    stopped_ = !kube::annotation_of(objects_.owner, labels::stopped).empty();
    for (const PodFacts& pod : facts_.pods) newest_[{pod.job, pod.rank}] = &pod;  // oldest first
    for (const Batch& batch : batches_) read_batch(batch);
    if (status_.record.driven) read_runs();
    for (Trial& known : read_ledger(status_.sweep, objects_.config_maps)) {
      const auto trial = trials_.find(known.number);
      if (trial == trials_.end()) continue;
      const bool can_tell_more =
          has_ended(trial->second.state) && status_.newest_pods.count(known.number) == 1;
      trial->second = has_ended(known.state) ? combine(known, trial->second)
                                             : continued(known, trial->second, !can_tell_more);
      if (trial->second.state == TrialState::succeeded) trial->second.failure.clear();  // of an earlier try
    }
    for (auto& [number, trial] : trials_) {
      count(trial.state);
      status_.trials.push_back(std::move(trial));
    }
    status_.phase = phase();
    // Those that the driver has not come to yet.
    const int all = static_cast<int>(status_.trials.size());
    if (status_.record.driven && !is_final(status_.phase))
      status_.counts.waiting += std::max(0, status_.record.trials - all);
    status_.why = why();
    describe_times();
    return std::move(status_);
  }

 private:
  const JobFacts* job_of(const Batch& batch) const {
    const std::string name = job_name(kube::name_of(objects_.owner), batch.job);
    const auto job = std::find_if(facts_.jobs.begin(), facts_.jobs.end(),
                                  [&](const JobFacts& each) { return each.name == name; });
    return job == facts_.jobs.end() ? nullptr : &*job;
  }

  // A trial that was started again in a later Job is that of the later one.
  void read_batch(const Batch& batch) {
    const JobFacts* job = job_of(batch);
    for (std::size_t i = 0; i < batch.trials.size(); ++i) {
      const TrialLine& line = batch.trials[i];
      const auto earlier = trials_.find(line.number);
      Trial trial;
      trial.number = line.number;
      trial.hash = line.hash;
      trial.point = line.point;
      trial.tries = earlier == trials_.end() ? 0 : earlier->second.tries;
      if (job != nullptr) read_index(*job, static_cast<int>(i), trial);
      trials_[line.number] = std::move(trial);
    }
  }

  // The newest of the lowest rank: that one reports for the run (CONTRACT.md).
  static std::string reporting_pod(const RunObjects& run) {
    const PodFacts* best = nullptr;
    const Facts facts = read_facts(run);
    for (const PodFacts& pod : facts.pods) {  // oldest first
      if (pod.role == "worker" && pod.started && (best == nullptr || pod.rank <= best->rank)) best = &pod;
    }
    return best == nullptr ? "" : best->name;
  }

  void read_runs() {
    const std::map<std::string, RunObjects> runs = runs_of(objects_);
    for (auto& [number, trial] : trials_) {
      const auto run = runs.find(trial_run(status_.sweep, trial.hash));
      if (run == runs.end()) continue;
      read_run(observe(run->second, now_), status_.record.objective, trial);
      trial.until = rung_of(run->second.owner, labels::until);
      // One that is paused, or is just going on again, waits.
      const bool paused = rung_of(run->second.owner, labels::paused) > 0;
      if (paused && trial.state == TrialState::stopped) trial.state = TrialState::waiting;
      const std::string early = kube::annotation_of(run->second.owner, labels::stopped_early);
      if (!early.empty() && trial.state != TrialState::succeeded) {
        trial.state = TrialState::stopped;
        trial.failure = printable(early);
      }
      const std::string pod = reporting_pod(run->second);
      if (!pod.empty()) status_.newest_pods[number] = pod;
    }
  }

  void read_index(const JobFacts& job, int index, Trial& trial) {
    const auto found = newest_.find({job.name, index});
    const PodFacts* pod = found == newest_.end() ? nullptr : found->second;
    if (job.completed.count(index) == 1) {
      trial.state = TrialState::succeeded;
    } else if (job.failed_ranks.count(index) == 1) {
      trial.state = TrialState::failed;
    } else if (pod != nullptr && pod->phase == "Running" && !pod->deleting) {
      trial.state = TrialState::running;
    } else if (stopped_ || job.finished) {
      trial.state = TrialState::stopped;
    }
    if (pod == nullptr) {
      if (has_ended(trial.state) && trial.tries == 0) trial.tries = 1;
      return;
    }
    trial.tries += pod->failures_before + 1;
    trial.started = pod->started;
    if (pod->ended()) trial.ended = pod->finished;
    if (pod->started) status_.newest_pods[trial.number] = pod->name;
    read_result(parse_result(pod->end_message), status_.record.objective, trial);
    if (trial.state == TrialState::failed) {
      trial.failure = what_happened(describe_end(*pod, job, true));
    }
  }

  void count(TrialState state) {
    Counts& counts = status_.counts;
    switch (state) {
      case TrialState::waiting:
        ++counts.waiting;
        return;
      case TrialState::running:
        ++counts.running;
        return;
      case TrialState::succeeded:
        ++counts.succeeded;
        return;
      case TrialState::failed:
        ++counts.failed;
        return;
      case TrialState::stopped:
        ++counts.stopped;
        return;
    }
  }

  // What the driver wrote when it ended; before that by what the trials do.
  Phase driven_phase() const {
    const std::optional<Phase> written = parse_phase(kube::annotation_of(objects_.owner, labels::phase));
    if (written) return *written;
    if (stopped_) return Phase::stopped;
    const Counts& counts = status_.counts;
    return counts.running + counts.succeeded + counts.failed > 0 ? Phase::running : Phase::scheduling;
  }

  Phase phase() const {
    if (status_.record.driven) return driven_phase();
    const Counts& counts = status_.counts;
    const bool lacks_jobs =
        batches_.empty() || std::any_of(batches_.begin(), batches_.end(),
                                        [&](const Batch& batch) { return job_of(batch) == nullptr; });
    if (lacks_jobs) return Phase::incomplete;
    // Not by the facts, which take the Jobs for those of one run.
    const bool ended = std::all_of(batches_.begin(), batches_.end(), [](const Batch& batch) {
      return batch.object && has_finished(*batch.object);
    });
    if (ended) {
      // A Job that has ended for its failures leaves trials that nobody starts.
      const bool hopeless = counts.failed > status_.record.max_failures || counts.stopped > 0;
      return hopeless || counts.succeeded == 0 ? Phase::failed : Phase::succeeded;
    }
    if (stopped_) return Phase::stopped;
    if (counts.running + counts.succeeded + counts.failed > 0) return Phase::running;
    const bool any_pod = std::any_of(facts_.pods.begin(), facts_.pods.end(),
                                     [](const PodFacts& pod) { return !pod.ended() && pod.scheduled; });
    return any_pod ? Phase::starting : Phase::scheduling;
  }

  std::string why() const {
    if (status_.phase == Phase::incomplete) return "the command that starts it was cut off: say it again";
    if (status_.phase == Phase::failed) return first_failure();
    const bool waits =
        status_.counts.running == 0 && !is_final(status_.phase) && status_.phase != Phase::stopped;
    if (!waits) return "";
    if (status_.record.driven) {
      return status_.counts.waiting > 0
                 ? "no trial runs; its mlk sweep command starts them when it is typed again"
                 : "";
    }
    std::vector<Cause> causes;
    for (const JobFacts& job : facts_.jobs) {
      causes.push_back(why_no_pod(job, facts_));
      for (const PodFacts& pod : facts_.pods) {
        if (pod.job == job.name && !pod.ended()) causes.push_back(why_pod_waits(pod, job, facts_));
      }
    }
    std::erase_if(causes, [](const Cause& cause) { return cause.weight == 0; });
    causes = merge_causes(std::move(causes));
    return causes.empty() ? "" : causes.front().text;
  }

  std::string first_failure() const {
    const Trial* first = nullptr;
    for (const Trial& trial : status_.trials) {
      if (trial.state != TrialState::failed) continue;
      if (first == nullptr || (trial.ended && (!first->ended || *trial.ended < *first->ended)))
        first = &trial;
    }
    if (first == nullptr) return "";
    const std::string what = first->failure.empty() ? "it failed" : first->failure;
    return fmt::format("{} of {} trials failed; the first, {}: {}", status_.counts.failed,
                       status_.counts.all(), first->number, what);
  }

  void describe_times() {
    for (const Trial& trial : status_.trials) {
      if (!status_.record.driven) break;
      if (trial.started && (!status_.started || *trial.started < *status_.started))
        status_.started = trial.started;
      if (is_final(status_.phase) && trial.ended && (!status_.ended || *status_.ended < *trial.ended))
        status_.ended = trial.ended;
    }
    for (const JobFacts& job : facts_.jobs) {
      if (status_.record.driven) break;
      if (job.started && (!status_.started || *job.started < *status_.started)) status_.started = job.started;
      if (is_final(status_.phase) && job.ended_at && (!status_.ended || *status_.ended < *job.ended_at))
        status_.ended = job.ended_at;
    }
  }

  const SweepObjects& objects_;
  const Time now_;
  const std::vector<Batch> batches_;
  const Facts facts_;
  SweepStatus status_;
  std::map<std::pair<std::string, int>, const PodFacts*> newest_;  // by Job and index
  std::map<int, Trial> trials_;
  bool stopped_ = false;
};

json time_or_null(const std::optional<Time>& time) { return time ? json(format_time(*time)) : json(); }

}  // namespace

void read_result(const json& result, const std::optional<Objective>& objective, Trial& trial) {
  if (!result.is_object()) return;
  trial.step = count_of(result, {"step"}, 0);
  if (const json& metrics = at_path(result, {"metrics"}); metrics.is_object()) trial.metrics = metrics;
  // A result's curve is that of the loss (CONTRACT.md), and its metrics are the last ones.
  const bool of_loss = !objective || (objective->metric == "loss" && objective->position == "step");
  for (const json& point : at_path(result, {"curve"})) {
    const bool pair =
        point.is_array() && point.size() == 2 && point[0].is_number_integer() && point[1].is_number();
    if (pair && of_loss) trial.curve.emplace_back(point[0].get<std::int64_t>(), point[1].get<double>());
  }
  if (!objective || objective->of != Objective::Of::last) return;
  const json& value = at_path(trial.metrics, {objective->metric.c_str()});
  if (value.is_number()) trial.objective = value.get<double>();
}

SweepStatus observe_sweep(const SweepObjects& objects, Time now) {
  return SweepObservation(objects, now).run();
}

RunStatus row_of_sweep(const RunObjects& objects) {
  const Facts facts = read_facts(objects);
  RunStatus row;
  row.run = kube::name_of(objects.owner);
  row.name = kube::label_of(objects.owner, labels::name);
  row.mode = "sweep";
  row.created = time_of(objects.owner, {"metadata", "creationTimestamp"});
  row.tags = tags_of(objects.owner);
  std::size_t succeeded = 0, failed = 0;
  bool ended = !facts.jobs.empty(), hopeless = false, active = false;
  for (const JobFacts& job : facts.jobs) {
    const bool of_run = job.role != "trial";  // of a trial that is a run: one of its Jobs ends it
    if (of_run && !job.decides && job.role != "worker") continue;
    succeeded +=
        of_run ? static_cast<std::size_t>(job.end == JobFacts::End::succeeded) : job.completed.size();
    failed += of_run ? static_cast<std::size_t>(job.end == JobFacts::End::failed) : job.failed_ranks.size();
    ended = ended && !of_run && (job.finished || job.ending);
    hopeless = hopeless || job.end_reason == hopeless_reason;
    active = active || job.active > 0;
    if (job.started && (!row.started || *job.started < *row.started)) row.started = job.started;
  }
  const bool stopped = !kube::annotation_of(objects.owner, labels::stopped).empty();
  const std::optional<Phase> written = parse_phase(kube::annotation_of(objects.owner, labels::phase));
  row.phase = written   ? *written
              : ended   ? (hopeless || succeeded == 0 ? Phase::failed : Phase::succeeded)
              : stopped ? Phase::stopped
              : active || succeeded + failed > 0 ? Phase::running
              : facts.jobs.empty()               ? Phase::incomplete
                                                 : Phase::scheduling;
  const json roles = json_or_null(kube::annotation_of(objects.owner, labels::roles));
  row.steps = count_of(roles, {"trial"}, 0);
  row.result = {{"step", succeeded + failed}};
  if (failed > 0) row.why = fmt::format("{} failed", failed);
  return row;
}

void keep_trial(SweepStatus& status, int number) {
  std::erase_if(status.trials, [&](const Trial& trial) { return trial.number != number; });
  if (status.trials.empty()) {
    throw Error(ExitCode::not_found, fmt::format("sweep {} has no trial {}", status.sweep, number),
                "list them with: mlk results " + status.sweep);
  }
}

void use_objective(SweepStatus& status, const Objective& objective) {
  status.record.objective = objective;
  for (Trial& trial : status.trials) {
    const json& value = at_path(trial.metrics, {objective.metric.c_str()});
    trial.objective = value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
    trial.curve.clear();  // it was that of the other metric
  }
}

const Trial* best_of(const SweepStatus& status) {
  return status.record.objective ? best(status.trials, *status.record.objective) : nullptr;
}

ExitCode exit_code(const SweepStatus& status) {
  if (status.phase == Phase::failed) return ExitCode::run_failed;
  return status.phase == Phase::stopped ? ExitCode::stopped : ExitCode::ok;
}

json to_json(const SweepStatus& status) {
  const Counts& counts = status.counts;
  json out = {{"sweep", status.sweep},
              {"name", status.name},
              {"mode", status.mode},
              {"phase", to_string(status.phase)},
              {"why", status.why},
              {"created", time_or_null(status.created)},
              {"started", time_or_null(status.started)},
              {"ended", time_or_null(status.ended)},
              {"trials", counts.all()},
              {"counts",
               {{"waiting", counts.waiting},
                {"running", counts.running},
                {"succeeded", counts.succeeded},
                {"failed", counts.failed},
                {"stopped", counts.stopped}}},
              {"search", status.record.search},
              {"parallel", status.record.parallel},
              {"best", nullptr}};
  if (const Trial* best = best_of(status))
    out["best"] = {{"trial", best->number}, {"objective", *best->objective}, {"parameters", best->point}};
  return out;
}

}  // namespace mlk::sweeps
