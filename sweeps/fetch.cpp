#include "sweeps/fetch.h"

#include <algorithm>
#include <deque>
#include <future>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"
#include "sweeps/ledger.h"
#include "sweeps/ledger_store.h"
#include "sweeps/reported.h"
#include "sweeps/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_logs_at_once = 128;
constexpr int lines_of_log = 1000;
constexpr std::size_t bytes_of_log = 256 * 1024;
constexpr milliseconds short_time{1500}, long_time{120'000};
constexpr std::size_t curve_points = 64;
constexpr std::size_t most_logs_for_curves = 200;

using Reports = std::vector<std::pair<std::int64_t, double>>;

// Evenly chosen, so that at most `most` are left; the first, the last and the best one always.
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

// Puts what a log tells into its trial, after what was known of the time before.
void read_lines(const std::vector<kube::LogLine>& lines, const Objective* objective,
                const MetricFinder* finder, Trial& trial) {
  Reports reports;
  for (const kube::LogLine& line : lines) {
    if (const std::optional<Metrics> metrics = parse_metrics(line.text)) {
      const json result = to_result(*metrics);
      trial.step = metrics->step;
      if (result.contains("metrics")) trial.metrics.update(result["metrics"]);
    }
    if (finder == nullptr) continue;
    if (const std::optional<Reported> found = finder->find(line.text)) {
      reports.emplace_back(found->step.value_or(static_cast<std::int64_t>(reports.size()) + 1), found->value);
      trial.metrics[objective->metric] = found->value;
    }
  }
  if (reports.empty() || objective == nullptr) return;
  std::erase_if(trial.curve, [&](const auto& point) { return point.first >= reports.front().first; });
  trial.curve.insert(trial.curve.end(), reports.begin(), reports.end());
  trial.objective = value_of(*objective, trial.curve);
  thin(trial.curve, curve_points, *objective);
}

class LogHarvest {
 public:
  LogHarvest(kube::Client& client, const std::string& name_space, SweepStatus& status)
      : client_(client), name_space_(name_space), status_(status) {
    if (status.record.objective) finder_.emplace(*status.record.objective);
  }

  void read(Harvest harvest) {
    const Clock::time_point deadline = Clock::now() + (harvest == Harvest::all ? long_time : short_time);
    std::deque<Trial*> due;
    for (Trial& trial : status_.trials) {
      const bool live = trial.state == TrialState::running;
      if (status_.newest_pods.count(trial.number) == 1 && needs_log(trial) &&
          (live || has_ended(trial.state)))
        live ? due.push_front(&trial) : due.push_back(&trial);
    }
    std::deque<std::pair<Trial*, std::future<kube::Answer>>> under_way;
    while (!due.empty() || !under_way.empty()) {
      const auto left = std::chrono::floor<milliseconds>(deadline - Clock::now());
      if (left <= milliseconds(0)) return;
      while (!due.empty() && under_way.size() < most_logs_at_once) {
        kube::LogOptions options;
        options.tail_lines = lines_of_log;
        options.limit_bytes = bytes_of_log;
        kube::Request request =
            kube::log_request(name_space_, status_.newest_pods.at(due.front()->number), options);
        request.timeout = left;
        under_way.emplace_back(due.front(), client_.ask(request));
        due.pop_front();
      }
      auto& [trial, answer] = under_way.front();
      if (answer.wait_for(left) != std::future_status::ready) return;
      take(answer.get(), *trial);
      under_way.pop_front();
    }
  }

 private:
  bool needs_log(const Trial& trial) const {
    if (trial.state == TrialState::running) return true;  // what is known may be of an earlier part of it
    // A result tells no curve but that of the loss; logs of many trials would take too long for it.
    const bool few = status_.trials.size() <= most_logs_for_curves;
    return (few && trial.curve.empty()) || trial.metrics.is_null() ||
           (status_.record.objective && !trial.objective) ||
           (status_.record.objective && status_.record.objective->of != Objective::Of::last);
  }

  void take(const kube::Answer& answer, Trial& trial) {
    if (!answer.unreachable.empty() || answer.response.status != 200) return;
    if (trial.metrics.is_null()) trial.metrics = json::object();
    const Objective* objective = status_.record.objective ? &*status_.record.objective : nullptr;
    read_lines(kube::parse_log(answer.response.body), objective, finder_ ? &*finder_ : nullptr, trial);
  }

  kube::Client& client_;
  const std::string& name_space_;
  SweepStatus& status_;
  std::optional<MetricFinder> finder_;
};

}  // namespace

void harvest_running(kube::Client& client, const std::string& name_space, const SweepStatus& status,
                     std::map<int, Trial>& told) {
  SweepStatus running = status;
  std::erase_if(running.trials, [](const Trial& trial) { return trial.state != TrialState::running; });
  LogHarvest(client, name_space, running).read(Harvest::running);
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
    return read || !has_ended(trial.state) || trial.objective || !status.record.objective;
  });
  if (!unread.trials.empty()) {
    LogHarvest(client, name_space, unread).read(Harvest::all);
    for (const Trial& trial : unread.trials) {
      const auto [known, is_new] = told.try_emplace(trial.number, trial);
      if (!is_new) known->second = combine(known->second, trial);
    }
  }
  for (Trial& trial : status.trials) {
    const auto known = told.find(trial.number);
    if (known == told.end()) continue;
    trial = has_ended(trial.state) ? combine(known->second, trial) : continued(known->second, trial, true);
  }
}

std::string run_of_trial(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         int number) {
  SweepStatus status = observe_sweep(fetch_sweep(client, name_space, sweep, WithPods::no), {});
  keep_trial(status, number);
  return status.record.driven ? trial_run(sweep, status.trials.front().hash) : "";
}

SweepStatus read_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                       Harvest harvest) {
  const SweepObjects objects = fetch_sweep(client, name_space, sweep, WithPods::yes);
  SweepStatus status = observe_sweep(objects, std::chrono::system_clock::now());
  LogHarvest(client, name_space, status).read(harvest);
  // Best effort: who may only look at the sweep sees it all the same.
  write_ledger(client, name_space, objects.owner, objects.config_maps, status.trials);
  return status;
}

}  // namespace mlk::sweeps
