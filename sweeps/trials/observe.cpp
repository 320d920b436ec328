#include "sweeps/trials/observe.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/facts.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/metrics_reader.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/state/diagnosis.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/space/ledger.h"
#include "sweeps/space/ranking.h"
#include "sweeps/trials/control.h"
#include "sweeps/trials/sweep_row.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr char looked_for[] = "its Job is not there; one more look says whether it is gone";
std::string first_failure(const SweepStatus& status) {
  const Trial* first = nullptr;
  for (const Trial& trial : status.trials) {
    if (trial.state != TrialState::failed) continue;
    if (first == nullptr || (trial.ended && (!first->ended || *trial.ended < *first->ended))) first = &trial;
  }
  if (first == nullptr) return "";
  const std::string what = first->failure.empty() ? "it failed" : first->failure;
  return fmt::format("{} of {} trials failed; the first, {}: {}", status.counts.failed, status.counts.all(),
                     first->number, what);
}

// If a trial exited with 0 and has a verdict, marks the trial as failed. Returns whether the trial has
// changed.
bool fail_by_verdict(Trial& trial) {
  if (trial.state != TrialState::succeeded || trial.objective || !is_verdict(trial.failure)) return false;
  trial.state = TrialState::failed;
  return true;
}

class SweepObservation {
 public:
  SweepObservation(const SweepObjects& objects, const std::map<std::string, RunObjects>& runs,
                   const std::set<std::string>& settled, Time now)
      : objects_(objects), runs_(runs), settled_(settled), now_(now), batches_(batches_of(objects)) {}

  SweepStatus run() {
    status_.sweep = kube::name_of(objects_.owner);
    status_.name = kube::label_of(objects_.owner, labels::name);
    status_.mode = kube::label_of(objects_.owner, labels::mode);
    status_.created = time_of(objects_.owner, {"metadata", "creationTimestamp"});
    status_.record = read_record(objects_.owner);
    facts_ = read_facts(objects_.jobs, objects_.pods, objects_.events, now_);
    stopped_ = is_stopped(objects_.owner, facts_);
    status_.jobs_go_on = any_job_goes_on(batches_);
    status_.draining = !kube::annotation_of(objects_.owner, annotations::draining).empty();
    for (const PodFacts& pod : facts_.pods) newest_[{pod.job, pod.rank}] = &pod;  // oldest first
    for (const Batch& batch : batches_) read_batch(batch);
    for (Trial& known : read_ledger(status_.sweep, objects_.config_maps))
      status_.ledger[known.number] = std::move(known);
    if (status_.record.driven) read_runs();
    for (const auto& [number, known] : status_.ledger) {
      const auto trial = trials_.find(number);
      if (trial == trials_.end()) continue;
      // A verdict on an earlier try does not apply to the trial's newest try.
      if (is_verdict(known.failure) && known.tries < trial->second.tries) continue;
      const bool can_tell_more = has_ended(trial->second.state) && status_.newest_pods.count(number) == 1;
      trial->second = has_ended(known.state) ? combine(known, trial->second)
                                             : continued(known, trial->second, !can_tell_more);
      if (trial->second.state != TrialState::succeeded || fail_by_verdict(trial->second)) continue;
      trial->second.failure.clear();  // the failure of an earlier try
    }
    for (auto& [number, trial] : trials_) status_.trials.push_back(std::move(trial));
    status_.counts = {count(TrialState::waiting), count(TrialState::running), count(TrialState::succeeded),
                      count(TrialState::failed), count(TrialState::stopped)};
    status_.phase = phase();
    // The trials that the driver has not started yet.
    const int all = static_cast<int>(status_.trials.size());
    if (status_.record.driven && !is_final(status_.phase))
      status_.counts.waiting += std::max(0, status_.record.trials - all);
    status_.driver = observe_driver(objects_, now_);
    status_.why = why();
    apply_verdicts(status_);
    describe_times();
    return std::move(status_);
  }

 private:
  const JobFacts* job_of(const Batch& batch) const {
    const std::string name = job_name(kube::name_of(objects_.owner), batch.job);
    const auto job = std::ranges::find(facts_.jobs, name, &JobFacts::name);
    return job == facts_.jobs.end() ? nullptr : &*job;
  }

  // The number of tries before a trial was started again. If the pods of the earlier Job are gone, assumes
  // that this Job used all the tries that a Job allows. With a lower number, the failure in the ledger would
  // win over the new try.
  int tries_before(const Trial& earlier) const {
    int out = earlier.tries;
    const bool pods_gone = earlier.state == TrialState::failed && !earlier.started;
    for (const JobFacts& job : facts_.jobs) {
      if (pods_gone) out = std::max(out, job.attempts);
    }
    return out;
  }

  // If a trial of this batch is also in an earlier batch, its try in this batch replaces its earlier try.
  void read_batch(const Batch& batch) {
    const JobFacts* job = job_of(batch);
    for (std::size_t i = 0; i < batch.trials.size(); ++i) {
      const TrialLine& line = batch.trials[i];
      const auto earlier = trials_.find(line.number);
      Trial trial;
      trial.number = line.number;
      trial.hash = line.hash;
      trial.point = line.point;
      if (earlier != trials_.end()) trial.tries = tries_before(earlier->second);
      if (job != nullptr) read_index(*job, static_cast<int>(i), trial);
      if (job == nullptr && batch.gone) {  // adds no try, so that a try in the ledger has priority
        trial.state = TrialState::failed;
        trial.failure = job_is_gone;
      }
      status_.newest_runs.erase(line.number);
      if (status_.record.driven && !batch.by_cluster) {
        if (line.attempt > 1) trial.tries = std::max(line.attempt, trial.tries + 1);
        status_.newest_runs[line.number] = trial_run(status_.sweep, line.hash, line.attempt);
      }
      trials_[line.number] = std::move(trial);
    }
  }

  void use_pod(int number, const PodFacts& pod) {
    status_.newest_pods[number] = pod.name;
    status_.program_of[pod.name] = pod.program;
  }

  // The newest pod of the lowest rank, since this pod reports for the run (CONTRACT.md).
  static std::optional<PodFacts> reporting_pod(const RunObjects& run) {
    const PodFacts* best = nullptr;
    const Facts facts = read_facts(run);
    for (const PodFacts& pod : facts.pods) {  // oldest first
      if (pod.role == "worker" && pod.started && (best == nullptr || pod.rank <= best->rank)) best = &pod;
    }
    return best == nullptr ? std::nullopt : std::optional(*best);
  }

  bool is_settled(const std::string& run, int number) const {
    const auto known = status_.ledger.find(number);
    return settled_.count(run) == 1 && known != status_.ledger.end() && has_ended(known->second.state);
  }

  void read_runs() {
    for (const auto& [number, name] : status_.newest_runs) {
      Trial& trial = trials_.at(number);
      const auto run = runs_.find(name);
      if (run == runs_.end() || is_settled(name, number)) continue;
      const RunStatus& seen = status_.runs[name] = observe(run->second, now_);
      read_run(seen, status_.record.objective, trial);
      if (trial.state == TrialState::waiting) status_.waits_for[number] = seen.why;
      if (trial.state == TrialState::waiting && seen.cannot_start) status_.cannot_start_of[number] = seen.why;
      trial.until = rung_of(run->second.owner, annotations::until);
      // A trial that is paused or is just being resumed counts as waiting.
      const bool paused = rung_of(run->second.owner, annotations::paused) > 0;
      if (paused && trial.state == TrialState::stopped) trial.state = TrialState::waiting;
      const std::string never = kube::annotation_of(run->second.owner, annotations::cannot_start);
      if (!never.empty() && trial.state != TrialState::succeeded) {
        trial.state = TrialState::failed;
        trial.failure = printable(never);
      }
      const std::string early = kube::annotation_of(run->second.owner, annotations::stopped_early);
      if (!early.empty() && trial.state != TrialState::succeeded) {
        trial.state = TrialState::stopped;
        trial.failure = printable(early);
      }
      if (const std::optional<PodFacts> pod = reporting_pod(run->second)) use_pod(number, *pod);
    }
  }

  void read_index(const JobFacts& job, int index, Trial& trial) {
    const auto found = newest_.find({job.name, index});
    const PodFacts* pod = found == newest_.end() ? nullptr : found->second;
    if (job.completed.contains(index) || (pod != nullptr && pod->done)) {
      trial.state = TrialState::succeeded;
    } else if (job.failed_ranks.contains(index)) {
      trial.state = TrialState::failed;
    } else if (pod != nullptr && pod->program_runs() && !pod->deleting) {
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
    if (pod->ended() || pod->exit_code) trial.ended = pod->finished;
    if (pod->started) use_pod(trial.number, *pod);
    read_result(written_result(pod->end_message), status_.record.objective, trial);
    if (trial.state == TrialState::failed) {
      trial.failure = what_happened(describe_end(*pod, job, true));
    }
  }

  int count(TrialState state) const {
    return static_cast<int>(std::ranges::count(status_.trials, state, &Trial::state));
  }

  // The phase that the driver has written at the end of the sweep. Before the end, the phase follows from the
  // trials.
  Phase driven_phase() const {
    const std::optional<Phase> written = parse_phase(kube::annotation_of(objects_.owner, annotations::phase));
    if (written) return *written;
    const Counts& counts = status_.counts;
    const bool drained =
        status_.draining && counts.running == 0 && status_.waits_for.empty() && !status_.jobs_go_on;
    if (stopped_ || drained) return Phase::stopped;
    return counts.running + counts.succeeded + counts.failed > 0 ? Phase::running : Phase::scheduling;
  }

  Phase phase() const {
    if (status_.record.driven) return driven_phase();
    const Counts& counts = status_.counts;
    const bool lacks_jobs = batches_.empty() || std::ranges::any_of(batches_, [&](const Batch& batch) {
                              return job_of(batch) == nullptr && !batch.gone;
                            });
    if (lacks_jobs) return Phase::incomplete;
    // Reads the conditions of the Jobs here, because the facts treat these Jobs as Jobs of one run.
    const bool ended = std::all_of(batches_.begin(), batches_.end(), [](const Batch& batch) {
      return batch.gone || (batch.object && has_finished(*batch.object));
    });
    if (ended) {
      // A Job that ended because of its failures leaves trials that will not be started.
      const bool hopeless = counts.failed > status_.record.max_failures || counts.stopped > 0;
      return hopeless || counts.succeeded == 0 ? Phase::failed : Phase::succeeded;
    }
    if (stopped_) return Phase::stopped;
    if (counts.running + counts.succeeded + counts.failed > 0) return Phase::running;
    const bool any_pod = std::any_of(facts_.pods.begin(), facts_.pods.end(),
                                     [](const PodFacts& pod) { return !pod.ended() && pod.scheduled; });
    return any_pod ? Phase::starting : Phase::scheduling;
  }

  std::string why() {
    if (status_.phase == Phase::incomplete) return was_made() ? std::string(looked_for) : starter_was_cut_off;
    if (status_.phase == Phase::failed) return first_failure(status_);
    if (status_.draining && status_.phase != Phase::stopped && !is_final(status_.phase)) return drains;
    if (const std::string undriven = why_undriven(); !undriven.empty()) return undriven;
    const bool waits =
        status_.counts.running == 0 && !is_final(status_.phase) && status_.phase != Phase::stopped;
    if (!waits) return "";
    if (status_.record.driven && !status_.jobs_go_on) return why_driven_waits();
    std::vector<Cause> causes;
    for (const JobFacts& job : facts_.jobs) {
      causes.push_back(why_no_pod(job, facts_));
      for (const PodFacts& pod : facts_.pods) {
        if (pod.job == job.name && !pod.ended()) causes.push_back(why_pod_waits(pod, job, facts_));
      }
    }
    std::erase_if(causes, [](const Cause& cause) { return cause.weight == 0; });
    causes = merge_causes(std::move(causes));
    const bool started = status_.counts.succeeded + status_.counts.failed > 0;
    status_.cannot_start = !started && std::any_of(causes.begin(), causes.end(),
                                                   [](const Cause& cause) { return cause.cannot_start; });
    return causes.empty() ? "" : causes.front().text;
  }

  bool was_made() const {
    return std::any_of(batches_.begin(), batches_.end(),
                       [&](const Batch& batch) { return batch.made && job_of(batch) == nullptr; });
  }

  // A message if nobody drives a sweep that needs a driver; otherwise empty. Running trials continue without
  // a driver, and waiting trials that have a run will start. So only waiting trials without a run need a
  // driver.
  std::string why_undriven() const {
    const bool over = is_final(status_.phase) || status_.phase == Phase::stopped;
    if (!status_.record.driven || status_.jobs_go_on || over || status_.driver.gone.empty()) return "";
    const int left = status_.counts.waiting - static_cast<int>(status_.waits_for.size());
    if (left > 0)
      return fmt::format("{}; {} of {} trials wait until its mlk sweep command is typed again",
                         status_.driver.gone, left, status_.counts.all());
    if (status_.counts.running + status_.counts.waiting > 0) return "";
    return status_.driver.gone + "; all trials have ended: its mlk sweep command, typed again, says how";
  }

  std::string why_driven_waits() const {
    if (status_.waits_for.empty()) {
      if (status_.counts.waiting == 0 || status_.driver.runs) return "";
      if (!status_.driver.what.empty()) return "no trial runs: its driver " + status_.driver.what;
      return "no trial runs; its mlk sweep command starts them when it is typed again";
    }
    const auto told = std::find_if(status_.waits_for.begin(), status_.waits_for.end(),
                                   [](const auto& each) { return !each.second.empty(); });
    return told == status_.waits_for.end() ? "" : fmt::format("trial {}: {}", told->first, told->second);
  }

  void describe_times() {
    const auto include = [&](const std::optional<Time>& started, const std::optional<Time>& ended) {
      if (started && (!status_.started || *started < *status_.started)) status_.started = started;
      if (is_final(status_.phase)) status_.ended = std::max(status_.ended, ended);  // nullopt is the least
    };
    if (status_.record.driven) {
      for (const Trial& trial : status_.trials) include(trial.started, trial.ended);
    } else {
      for (const JobFacts& job : facts_.jobs) include(job.started, job.ended_at);
    }
  }

  const SweepObjects& objects_;
  const std::map<std::string, RunObjects>& runs_;
  const std::set<std::string>& settled_;
  const Time now_;
  const std::vector<Batch> batches_;
  Facts facts_;
  SweepStatus status_;
  std::map<std::pair<std::string, int>, const PodFacts*> newest_;  // by Job and index
  std::map<int, Trial> trials_;
  bool stopped_ = false;
};

}  // namespace

void read_result(const json& result, const std::optional<Objective>& objective, Trial& trial) {
  if (!result.is_object()) return;
  trial.step = count_of(result, {"step"}, 0);
  if (const json& metrics = at_path(result, {"metrics"}); metrics.is_object()) trial.metrics = metrics;
  // A result contains the curve of the loss (CONTRACT.md) and the last metrics.
  const bool of_loss = !objective || (objective->metric == "loss" && objective->position == "step");
  for (const json& point : at_path(result, {"curve"})) {
    const bool pair =
        point.is_array() && point.size() == 2 && point[0].is_number_integer() && point[1].is_number();
    if (pair && of_loss) trial.curve.emplace_back(point[0].get<std::int64_t>(), point[1].get<double>());
  }
  if (!objective || objective->of != Objective::Of::last) return;
  const json& value = at_path(trial.metrics, {objective->metric.c_str()});
  if (const std::optional<double> number = metric_number(value); number && std::isfinite(*number))
    trial.objective = number;
}

SweepStatus observe_sweep(const SweepObjects& objects, Time now) {
  if (!read_record(objects.owner).driven) return observe_sweep(objects, {}, {}, now);
  SweepObjects rest = objects;
  const std::map<std::string, RunObjects> runs = extract_runs(rest);
  return observe_sweep(rest, runs, {}, now);
}

SweepStatus observe_sweep(const SweepObjects& objects, const std::map<std::string, RunObjects>& runs,
                          const std::set<std::string>& settled, Time now) {
  return SweepObservation(objects, runs, settled, now).run();
}

void apply_verdicts(SweepStatus& status) {
  bool any = false;
  for (Trial& trial : status.trials) {
    if (fail_by_verdict(trial)) {
      --status.counts.succeeded;
      ++status.counts.failed;
    }
    any = any || (trial.state == TrialState::failed && is_verdict(trial.failure));
  }
  const bool all_failed = status.counts.succeeded == 0 || status.counts.failed > status.record.max_failures;
  if (!any || status.phase != Phase::succeeded || !all_failed) return;
  status.phase = Phase::failed;
  status.why = first_failure(status);
}

const RunObjects* run_of(const Trial& trial, const std::map<std::string, RunObjects>& runs,
                         const SweepStatus& status) {
  const auto name = status.newest_runs.find(trial.number);
  const auto run = name == status.newest_runs.end() ? runs.end() : runs.find(name->second);
  return run == runs.end() ? nullptr : &run->second;
}

void select_trial(SweepStatus& status, int number) {
  std::erase_if(status.trials, [&](const Trial& trial) { return trial.number != number; });
  status.is_of_one_trial = true;
  if (status.trials.empty()) {
    throw Error(ExitCode::not_found, fmt::format("sweep {} has no trial {}", status.sweep, number),
                "list them with: mlk results " + status.sweep);
  }
}

void use_objective(SweepStatus& status, const Objective& objective) {
  status.record.objective = objective;
  for (Trial& trial : status.trials) {
    const json& value = at_path(trial.metrics, {objective.metric.c_str()});
    trial.objective = metric_number(value);
    if (trial.objective && !std::isfinite(*trial.objective)) trial.objective.reset();
    trial.curve.clear();  // the curve shows the earlier metric
  }
}

bool needs_driver(const SweepStatus& status) {
  return status.record.driven && status.counts.running == 0 && status.waits_for.empty() &&
         !status.driver.goes_on && !status.jobs_go_on && !is_final(status.phase) &&
         status.phase != Phase::stopped;
}

const Trial* best_of(const SweepStatus& status) {
  return status.record.objective && !status.is_of_one_trial ? best(status.trials, *status.record.objective)
                                                            : nullptr;
}

ExitCode exit_code(const SweepStatus& status) {
  const bool unknown = std::any_of(status.trials.begin(), status.trials.end(), [](const Trial& trial) {
    return trial.state == TrialState::failed && trial.failure == job_is_gone;
  });
  if (status.phase == Phase::failed && unknown && status.counts.succeeded == 0) return ExitCode::failure;
  if (status.phase == Phase::failed) return ExitCode::run_failed;
  return status.phase == Phase::stopped ? ExitCode::stopped : ExitCode::ok;
}

}  // namespace mlk::sweeps
