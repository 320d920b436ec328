#include "sweeps/read/fetch.h"

#include <algorithm>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "cli/kube/client.h"
#include "cli/kube/failure.h"
#include "cli/kube/log_tails.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/metrics_reader.h"
#include "cli/run/read/late_lines.h"
#include "cli/util/json_path.h"
#include "sweeps/objects/lease.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/space/ledger.h"
#include "sweeps/space/reported.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int lines_of_log = 1000;
constexpr std::size_t bytes_of_log = 256 * 1024;
constexpr milliseconds short_time{1500}, long_time{120'000};
// The limits are short, since a driver does not renew its Lease while it reads logs.
constexpr milliseconds patience_with_failures{5'000}, pause_after_failure{400};
constexpr std::size_t curve_points = 64;
constexpr std::size_t most_logs_for_curves = 200;
constexpr int many_trials = 1000;

using Reports = std::vector<std::pair<std::int64_t, double>>;

// Keeps at most `most` points, evenly chosen. Always keeps the first, the last and the best point.
void thin(Reports& curve, std::size_t most, const Objective& objective) {
  if (curve.size() <= most) return;
  const std::size_t size = curve.size();
  std::size_t best = size - 1;
  for (std::size_t i = 0; i < size; ++i) {
    if (is_better(objective, curve[i].second, curve[best].second)) best = i;
  }
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(i * (size - 1) / (most - 1));
  const auto behind = std::lower_bound(chosen.begin(), chosen.end(), best);
  if (*behind != best) *std::min(behind, std::prev(chosen.end(), 2)) = best;
  Reports out;
  for (const std::size_t i : chosen) out.push_back(curve[i]);
  curve = std::move(out);
}

// Adds the reports of a log to its trial. From the first step of the log on, they replace the known reports.
void read_lines(const std::vector<kube::LogLine>& lines, const Objective* objective,
                const MetricFinder* finder, Trial& trial) {
  Reports reports;
  MetricsReader reader;
  for (const kube::LogLine& line : lines) {
    if (const std::optional<Metrics> metrics = reader.read(line.text)) {
      const json result = to_result(*metrics);
      trial.step = metrics->step;
      if (result.contains("metrics")) trial.metrics.update(result["metrics"]);
    }
    if (finder == nullptr) continue;
    if (const std::optional<Reported> found = finder->find(line.text)) {
      reports.emplace_back(found->step.value_or(static_cast<std::int64_t>(reports.size()) + 1), found->value);
      trial.metrics[objective->metric] = metric_to_json(found->value);
    }
  }
  if (reports.empty() || objective == nullptr) return;
  std::erase_if(trial.curve, [&](const auto& point) { return point.first >= reports.front().first; });
  trial.curve.insert(trial.curve.end(), reports.begin(), reports.end());
  trial.objective = value_of(*objective, trial.curve);
  if (!trial.objective) trial.failure = diverged(objective->metric);
  thin(trial.curve, curve_points, *objective);
}

class LogHarvest {
 public:
  LogHarvest(kube::Client& client, const std::string& name_space, SweepStatus& status)
      : client_(client), name_space_(name_space), status_(status) {
    if (status.record.objective) finder_.emplace(*status.record.objective);
  }

  void read(Clock::time_point deadline) {
    std::deque<Trial*> due;
    for (Trial& trial : status_.trials) {
      const bool live = trial.state == TrialState::running;
      if (status_.newest_pods.count(trial.number) == 1 && needs_log(trial) &&
          (live || has_ended(trial.state)))
        live ? due.push_front(&trial) : due.push_back(&trial);
    }
    read(due, deadline);
    // mlk reads the log of an ended trial only once, so it retries for some seconds: the server or the node
    // may just be restarting.
    const Clock::time_point patience = std::min(deadline, Clock::now() + patience_with_failures);
    while (!unanswered_.empty() && Clock::now() + pause_after_failure < patience) {
      std::this_thread::sleep_for(pause_after_failure);
      read(std::exchange(unanswered_, {}), patience);
    }
    const auto read_silent = [&] {
      std::deque<Trial*> again;
      for (const auto& [trial, verdict] : silent_) again.push_back(trial);
      read(again, deadline);
    };
    if (!read_late_lines([&] { return !silent_.empty(); }, read_silent, deadline)) return;
    for (const auto& [trial, verdict] : silent_) trial->failure = verdict;
  }

 private:
  void read(const std::deque<Trial*>& due, Clock::time_point deadline) {
    kube::LogTails tails(client_, name_space_);
    for (Trial* trial : due) ask(tails, *trial, lines_of_log);
    tails.read(deadline);
  }

  // The server cuts off the newest lines of a text that is too long, so such a text is requested again with
  // fewer lines.
  void ask(kube::LogTails& tails, Trial& trial, int lines) {
    const std::string& pod = status_.newest_pods.at(trial.number);
    const auto program = status_.program_of.find(pod);
    tails.add({.pod = pod,
               .container = program == status_.program_of.end() ? "" : program->second,
               .lines = lines,
               .bytes = bytes_of_log},
              [this, &tails, &trial, lines](const kube::TailAnswer& answer) {
                const int whole_lines = static_cast<int>(answer.lines.size());
                if (answer.cut_off && lines > 1)
                  return ask(tails, trial, std::max(1, std::min(lines / 2, whole_lines)));
                on_answer(answer, trial);
              });
  }

  bool needs_log(const Trial& trial) const {
    if (trial.state == TrialState::running)
      return true;  // the known reports may be from an earlier part of the training
    // A result contains only the curve of the loss. If there are many trials, mlk does not read their logs
    // for other curves, since this would take too long.
    const bool few = status_.trials.size() <= most_logs_for_curves;
    return (few && trial.curve.empty()) || trial.metrics.is_null() ||
           (status_.record.objective && !trial.objective) ||
           (status_.record.objective && status_.record.objective->of != Objective::Of::last);
  }

  void on_answer(const kube::TailAnswer& answer, Trial& trial) {
    const bool is_young = may_have_late_lines(trial.ended, std::chrono::system_clock::now());
    // Retries only for a trial that has just ended: for an older trial, 500 may mean that the node has
    // removed the log.
    if (kube::may_pass(answer.status) && is_young && has_ended(trial.state)) unanswered_.push_back(&trial);
    if (answer.status != 200) return;
    silent_.erase(&trial);
    if (trial.metrics.is_null()) trial.metrics = json::object();
    const Objective* objective = status_.record.objective ? &*status_.record.objective : nullptr;
    const Trial known = trial;
    read_lines(answer.lines, objective, finder_ ? &*finder_ : nullptr, trial);
    if (has_result(known)) keep_result(known, trial);
    if (trial.state != TrialState::succeeded) {
      trial.failure = known.failure;  // only a trial that has succeeded gets a verdict
    } else if (answer.whole && objective != nullptr && !trial.objective && trial.failure.empty()) {
      (is_young ? silent_[&trial] : trial.failure) =
          never_reported(objective->metric, last_near_miss(answer.lines));
    }
  }

  // Whether the known objective comes from the result that the trial has written.
  bool has_result(const Trial& known) const {
    return has_ended(known.state) && known.objective && known.curve.empty() && status_.record.objective &&
           status_.record.objective->of == Objective::Of::last;
  }

  // Restores the values of the result after the log was read. They are final, and the log only adds the
  // curve.
  static void keep_result(const Trial& known, Trial& trial) {
    trial.objective = known.objective;
    trial.step = known.step;
    trial.failure = known.failure;
    trial.metrics = known.metrics;
  }

  std::string last_near_miss(const std::vector<kube::LogLine>& lines) const {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      if (std::optional<std::string> miss = finder_->near_miss(line->text)) return *miss;
    }
    return "";
  }

  kube::Client& client_;
  const std::string& name_space_;
  SweepStatus& status_;
  std::optional<MetricFinder> finder_;
  std::deque<Trial*> unanswered_;  // trials that have just ended, and whose logs the server failed to give
  std::map<Trial*, std::string> silent_;  // the verdicts on trials that have just ended without an objective
};

bool has_ended(const SweepObjects& objects, const Record& record) {
  if (record.driven) return !kube::annotation_of(objects.owner, annotations::phase).empty();
  return std::all_of(objects.jobs.begin(), objects.jobs.end(), has_finished);
}

// Whether the ledger has a line for each trial. A line may still lack the result of its trial.
bool may_be_in_ledger(const SweepObjects& objects, const Record& record) {
  return lines_of_ledger(kube::name_of(objects.owner), objects.config_maps) >=
         static_cast<std::size_t>(record.trials);
}

bool has_all_results(const SweepStatus& status) {
  return std::all_of(status.trials.begin(), status.trials.end(), [&](const Trial& trial) {
    const bool told = status.record.objective ? trial.objective.has_value() : !trial.metrics.is_null();
    return told || trial.state == TrialState::failed || trial.state == TrialState::stopped;
  });
}

}  // namespace

void harvest_running(kube::Client& client, const std::string& name_space, const SweepStatus& status,
                     std::map<int, Trial>& told) {
  SweepStatus running = status;
  std::erase_if(running.trials, [](const Trial& trial) { return trial.state != TrialState::running; });
  LogHarvest(client, name_space, running).read(Clock::now() + short_time);
  for (Trial& trial : running.trials) {
    const auto known = told.find(trial.number);
    told[trial.number] = known == told.end() ? std::move(trial) : continued(known->second, trial, true);
  }
}

void harvest_ended(kube::Client& client, const std::string& name_space, SweepStatus& status,
                   std::map<int, Trial>& told) {
  SweepStatus unread = status;
  std::erase_if(unread.trials, [&](const Trial& trial) {
    const auto known = told.find(trial.number);
    const bool read =
        known != told.end() && has_ended(known->second.state) && known->second.tries >= trial.tries;
    // The server may show the end of a Job before it shows the pod of the trial. A later call then reads the
    // log.
    const bool unseen = status.newest_pods.count(trial.number) == 0;
    return read || unseen || !has_ended(trial.state) || trial.objective || !status.record.objective;
  });
  if (!unread.trials.empty()) {
    LogHarvest(client, name_space, unread).read(Clock::now() + long_time);
    for (const Trial& trial : unread.trials) {
      const auto [known, is_new] = told.try_emplace(trial.number, trial);
      if (!is_new) known->second = combine(known->second, trial);
    }
  }
  for (Trial& trial : status.trials) {
    const auto known = told.find(trial.number);
    if (known == told.end()) {
      // A later observation may lack the trial's pod, since pods and ledgers have different watches.
      if (has_ended(trial.state) && trial.objective) told.emplace(trial.number, trial);
      continue;
    }
    trial = has_ended(trial.state) ? combine(known->second, trial) : continued(known->second, trial, true);
  }
  apply_verdicts(status);
}

std::string run_of_trial(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         int number) {
  SweepStatus status = observe_sweep(fetch_sweep(client, name_space, sweep, WithPods::no), {});
  select_trial(status, number);
  const auto run = status.newest_runs.find(number);
  return run == status.newest_runs.end() ? "" : run->second;
}

SweepStatus read_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                       Harvest harvest) {
  const Clock::time_point deadline = Clock::now() + (harvest == Harvest::all ? long_time : short_time);
  SweepObjects objects = fetch_sweep(client, name_space, sweep, WithPods::no);
  const Record record = read_record(objects.owner);
  const bool large = record.trials > many_trials;
  const auto observe = [&] { return observe_sweep(objects, std::chrono::system_clock::now()); };
  const bool ended = has_ended(objects, record);
  if (large && ended && may_be_in_ledger(objects, record)) {
    SweepStatus status = observe();
    if (has_all_results(status)) return status;
  }
  std::future<std::optional<json>> lease;
  if (record.driven && !ended)
    lease = std::async(std::launch::async, [&] { return read_lease(client, name_space, sweep); });
  if (large && harvest == Harvest::running) {
    set_pods(objects, fetch_running_pods(client, name_space, sweep));
    // To find warnings, the server reads every event of the namespace from its disk, and there are far more
    // events than trials. So mlk requests warnings only to explain why no trial runs although trials are
    // left.
    const auto runs = [](const json& pod) { return text_of(pod, {"status", "phase"}) == "Running"; };
    if (!ended && std::none_of(objects.pods.begin(), objects.pods.end(), runs))
      objects.events = fetch_warnings(client, name_space, sweep);
    if (lease.valid()) objects.lease = lease.get();
    return observe();  // does not write the ledger, since a trial without its pod has no reports here
  }
  auto warnings = std::async(std::launch::async, [&] { return fetch_warnings(client, name_space, sweep); });
  set_pods(objects, fetch_pods(client, name_space, sweep));
  objects.events = warnings.get();
  if (lease.valid()) objects.lease = lease.get();
  SweepStatus status = observe();
  LogHarvest(client, name_space, status).read(deadline);
  apply_verdicts(status);
  // Best effort: a user who may not write still sees the sweep.
  write_ledger(client, name_space, objects.owner, objects.config_maps, status.trials, status.ledger);
  return status;
}

}  // namespace mlk::sweeps
