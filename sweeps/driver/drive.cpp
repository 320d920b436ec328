#include "sweeps/driver/drive.h"

#include <algorithm>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/run/change/suspend.h"
#include "cli/run/read/confirm_absences.h"
#include "cli/run/read/find.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "cli/util/time.h"
#include "sweeps/driver/ended_runs.h"
#include "sweeps/driver/late_starts.h"
#include "sweeps/objects/lease.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/objects/record.h"
#include "sweeps/objects/watch.h"
#include "sweeps/read/fetch.h"
#include "sweeps/search/decide.h"
#include "sweeps/start/job_trials.h"
#include "sweeps/trials/control.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds tick{200};
constexpr std::chrono::seconds pause_after_trouble{1};
constexpr std::chrono::minutes longest_trouble{30};
// A round is due after this time at the latest, even if no watch has reported a change, since the Lease lasts
// only 15 s.
constexpr std::chrono::seconds poll_interval{5};
// Limits the time of a step, since a step may have thousands of trials to start or to settle. The driver
// continues in its next round, and that round also notices a request to stop the sweep.
constexpr std::chrono::seconds longest_step{20};
// If a created run has not appeared in a watch after this time, the driver creates it again.
constexpr std::chrono::seconds longest_news{60};

using Runs = std::map<std::string, RunObjects>;
// True if there is time for more work and this process still holds the Lease.
using GoOn = std::function<bool()>;

Time now() { return std::chrono::system_clock::now(); }

class Driver {
 public:
  Driver(kube::Client& client, const StartRequest& request, const DriveHooks& hooks)
      : client_(client),
        request_(request),
        hooks_(hooks),
        sweep_(request.definition.identity.run),
        runs_(client, request.name_space, request.version, request.local, request.definition,
              request.file_context, request.templates, hooks.submit),
        late_starts_(request.definition.first.start_timeout),
        ended_(client, request.name_space) {}

  SweepStatus run() {
    std::optional<SweepWatch> watch;
    std::optional<DriverLease> lease;
    while (true) {
      hooks_.submit.check_interrupted();
      is_listed_ = more_;
      std::optional<SweepObjects> objects = more_ ? listed() : watched(watch);
      if (!objects) continue;
      more_ = false;
      if (!lease)
        lease.emplace(client_, request_.name_space, sweep_, kube::uid_of(objects->owner), hooks_.lease);
      const Runs runs = extract_runs(*objects);
      const SweepStatus status = observe_trials(*objects, runs);
      hooks_.changed(status);
      if (watch) watch->observed();
      if (left_to_others_ || has_nothing_to_do(*objects, runs, status)) {
        lease->release();
        std::optional<SweepStatus> last;
        attempt([&] { last = read_sweep(client_, request_.name_space, sweep_, Harvest::all); });
        if (last) return *last;
        continue;  // tried again in the next round
      }
      if (!lease->hold()) {
        hooks_.waiting(lease->holder());
        continue;
      }
      stepped_ = steady_clock::now();
      const GoOn go_on = [&] { return steady_clock::now() - stepped_ < longest_step && lease->hold(); };
      attempt([&] { step(*objects, runs, status, go_on); });
    }
  }

 private:
  // Lists the objects without a watch, for steps that create thousands of objects. For the server, each
  // report to a watch costs as much as the creation of an object.
  std::optional<SweepObjects> listed() {
    std::optional<SweepObjects> objects;
    attempt([&] {
      // Fetches no warnings: to find them, the server would read every event of the namespace from its disk.
      SweepObjects found = fetch_sweep(client_, request_.name_space, sweep_, WithPods::no);
      set_pods(found, fetch_pods(client_, request_.name_space, sweep_));
      objects = std::move(found);
    });
    return objects;
  }

  // Waits at most the time `tick` for a change. nullopt if nothing has changed and no round is due.
  std::optional<SweepObjects> watched(std::optional<SweepWatch>& watch) {
    if (!watch) watch.emplace(client_, request_.name_space, sweep_);
    const bool changed = watch->wait(tick);
    const bool due = steady_clock::now() - stepped_ > (judges() ? hooks_.judge_every : poll_interval);
    return changed || due ? watch->objects() : std::nullopt;
  }

  bool judges() const { return request_.definition.spec.stop.rule != EarlyStop::Rule::none; }

  NextStep next_step(const SweepObjects& objects, const SweepStatus& status) const {
    return decide(request_.definition.spec, request_.definition.points, status.trials,
                  read_record(objects.owner).max_failures);
  }

  // An ended sweep continues if trials have to be tried again, or if this command has points that the sweep
  // does not have. (The user may have added points while another process drove the sweep.)
  bool has_nothing_to_do(const SweepObjects& objects, const Runs& runs, const SweepStatus& status) const {
    if (is_final(status.phase)) {
      const NextStep next = next_step(objects, status);
      return next.ended || next.hopeless;
    }
    if (status.phase != Phase::stopped || status.counts.running > 0) return false;
    const auto rests = [](const json& job) {
      return at_path(job, {"spec", "suspend"}) == true || !at_path(job, {"status", "conditions"}).empty();
    };
    return std::all_of(runs.begin(), runs.end(), [&](const auto& run) {
      return std::all_of(run.second.jobs.begin(), run.second.jobs.end(), rests);
    });
  }

  // Runs the action. If the server fails temporarily, a later round repeats it: a sweep runs for days.
  void attempt(const std::function<void()>& action) {
    try {
      action();
      failing_since_.reset();
      has_worked_ = true;
    } catch (const Error& error) {
      const auto* answer = dynamic_cast<const kube::ApiError*>(&error);
      const int code = answer == nullptr ? 0 : answer->status();
      const bool transient = error.code() == ExitCode::cluster || (answer != nullptr && code == 404);
      // An API server that has just started has not loaded the RBAC roles yet, so its refusal may be
      // temporary.
      const bool refused = code == 401 || code == 403;
      const bool final_answer = code == 400 || code == 422 || (refused && !has_worked_);
      if (!transient || final_answer) throw;
      if (!failing_since_) failing_since_ = steady_clock::now();
      if (steady_clock::now() - *failing_since_ > (refused ? hooks_.lease.longest_refusal : longest_trouble))
        throw;
      hooks_.submit.check_interrupted();
      hooks_.submit.note(std::string(error.what()) + "; retrying");
      std::this_thread::sleep_for(pause_after_trouble);
    }
  }

  // The state of the sweep, with the reports in logs. Reads the log of an ended trial only once.
  SweepStatus observe_trials(const SweepObjects& objects, const Runs& runs) {
    SweepStatus status = observe_sweep(objects, runs, ended_.settled(), now());
    late_starts_.observe(status, steady_clock::now());
    // The objects do not show that this process is the driver, so `why` would say that the sweep has no
    // driver.
    if (needs_driver(status)) status.why.clear();
    if (judges() && steady_clock::now() - judged_ > hooks_.judge_every) {
      judged_ = steady_clock::now();
      harvest_running(client_, request_.name_space, status, told_);
    }
    harvest_ended(client_, request_.name_space, status, told_);
    return status;
  }

  // Decides once, and applies the decisions. If a step is cut off, the next step completes its work.
  void step(const SweepObjects& objects, const Runs& runs, const SweepStatus& status, const GoOn& go_on) {
    // A new list of all objects shows the end of each pod whose Job has ended; the watches may show this end
    // later.
    more_ = !is_listed_ && ended_.lack_ends_of_pods(runs, status);
    if (more_) return;
    confirm_gone_jobs(runs, status);
    more_ = !ended_.settle(runs, status, go_on);
    write_ledger(client_, request_.name_space, objects.owner, objects.config_maps, status.trials,
                 status.ledger);
    if (status.phase == Phase::stopped) return stop_all(runs, status);
    if (is_final(status.phase)) return set_phase(objects, status, nullptr);  // the sweep continues
    NextStep next = next_step(objects, status);
    if (status.draining) next = without_starts(std::move(next), status.trials);
    const std::vector<Batch> batches = batches_of(objects);
    fail_those_that_cannot_start(status, runs);
    apply(objects, status, runs, next.judged);
    for (const auto& [name, run] : status.runs) {
      if (!is_over(run)) apply_pause(client_, request_.name_space, runs.at(name));
    }
    if (next.hopeless) {
      stop_all(runs, status);
    } else {
      // Creates the missing Jobs of trials that an earlier start has registered.
      TrialIndexes indexes(client_, request_, hooks_.submit, kube::uid_of(objects.owner));
      indexes.start_missing(batches);
      indexes.mark_made(batches, objects.owner);
      const std::vector<TrialLine> fresh = register_trials(objects, status, next.start);
      start_missing(objects, status, batches, fresh, go_on);
    }
    // A hopeless sweep starts no more trials, so it does not wait for trials that were registered and never
    // started. It waits for its Jobs whose indexes are trials: each of them ends at its own limit of
    // failures.
    const bool runs_on = any_job_goes_on(batches) ||
                         std::any_of(status.trials.begin(), status.trials.end(), [&](const Trial& trial) {
                           return !has_ended(trial.state) && run_of(trial, runs, status) != nullptr;
                         });
    if (more_ || ended_.any_waits()) return;  // there is more work, or an ended run is not settled yet
    if (!next.ended && (!next.hopeless || runs_on)) return;
    const int known = static_cast<int>(status.trials.size());
    left_to_others_ =
        !next.hopeless && others_have_added(read_record(objects.owner), request_.definition, known);
    if (!left_to_others_) end(objects, status, next.hopeless);
  }

  // Marks the owners of runs whose Jobs are gone. The next round reads these marks.
  void confirm_gone_jobs(const Runs& runs, const SweepStatus& sweep) {
    std::vector<json> owners, jobs;
    for (const auto& [name, status] : sweep.runs) {
      if (status.absence == Absence::unsure) owners.push_back(runs.at(name).owner);
    }
    if (owners.empty()) return;
    const kube::ListOptions options = of_sweep(sweep_, kube::resources::jobs);
    jobs = client_.list(kube::resources::jobs, request_.name_space, options).items;
    std::vector<json*> lacking;
    for (json& owner : owners) lacking.push_back(&owner);
    mlk::confirm_absences(client_, request_.name_space, lacking, jobs);
  }

  void stop_all(const Runs& runs, const SweepStatus& sweep) {
    for (const auto& [name, status] : sweep.runs) {
      if (!is_over(status)) stop_trial(client_, request_.name_space, runs.at(name));
    }
  }

  // Applies the decisions of early stopping. First stores the reports of the trials, since the logs are lost
  // with the pods.
  void apply(const SweepObjects& objects, const SweepStatus& status, const Runs& runs,
             const std::vector<Decision>& decisions) {
    std::map<int, Trial> trials;
    for (const Trial& trial : status.trials) trials[trial.number] = trial;
    std::vector<Trial> ending;
    for (const Decision& decision : decisions) {
      if (decision.kind != Decision::Kind::promote) ending.push_back(trials.at(decision.number));
    }
    if (!write_lines(client_, request_.name_space, objects.owner, objects.config_maps, ending)) return;
    for (const Decision& decision : decisions) {
      const Trial& trial = trials.at(decision.number);
      const RunObjects* run = run_of(trial, runs, status);
      if (run != nullptr) apply(decision, trial, *run);
    }
  }

  void apply(const Decision& decision, const Trial& trial, const RunObjects& run) {
    switch (decision.kind) {
      case Decision::Kind::start:
        return;
      case Decision::Kind::promote:
        return let_train(client_, request_.name_space, run, decision.until);
      case Decision::Kind::pause:
        return mark_paused(client_, request_.name_space, run, decision.until);
      case Decision::Kind::stop:
        const Spec& spec = request_.definition.spec;
        stop_trial(client_, request_.name_space, run,
                   fmt::format("stopped early by {} at {} {}",
                               spec.stop.rule == EarlyStop::Rule::asha ? "asha" : "median",
                               spec.objective ? spec.objective->position : "step",
                               trial.curve.empty() ? trial.step : trial.curve.back().first));
    }
  }

  // Trials that do not fit into one write are registered in the next round.
  std::vector<TrialLine> register_trials(const SweepObjects& objects, const SweepStatus& status,
                                         const std::vector<Point>& points) {
    std::vector<TrialLine> lines;
    int number = status.trials.empty() ? 0 : status.trials.back().number + 1;
    for (const Point& point : points) lines.push_back({number++, hash_of(point), point, {}, 1});
    const std::size_t written =
        append_points(client_, request_.name_space, objects, lines, request_.most_points_bytes);
    more_ = more_ || (written > 0 && written < lines.size());
    lines.resize(written);
    return lines;
  }

  // Starts as many trials as there are free places: trials that were just registered, trials that an earlier
  // driver has registered but not started, and trials that have to be tried again. Also creates missing
  // objects of existing runs. In a sweep that is being drained, creates only these objects.
  void start_missing(const SweepObjects& objects, const SweepStatus& status,
                     const std::vector<Batch>& batches, const std::vector<TrialLine>& fresh,
                     const GoOn& go_on) {
    std::vector<TrialLine> missing, incomplete;
    int room = status.draining ? 0 : request_.definition.spec.parallel - places_taken(batches);
    for (const TrialLine* trial : going_on(status, batches, fresh)) {
      const std::string name = trial_run(sweep_, trial->hash, trial->attempt);
      const auto seen = status.runs.find(name);
      const bool is_there = seen != status.runs.end();
      // If the Job of a run was made and is missing now, creates nothing for the run. The next rounds show
      // whether the Job is gone.
      const bool whole = is_there && (seen->second.phase != Phase::incomplete ||
                                      seen->second.absence == Absence::unsure || is_over(seen->second));
      if (whole) created_.erase(name);  // the watch reports the run from now on
      const auto made = created_.find(name);
      const bool on_its_way = made != created_.end() && steady_clock::now() - made->second < longest_news;
      const bool paused = is_there && seen->second.phase == Phase::stopped;
      if ((is_there && !paused) || on_its_way) --room;
      if (whole || on_its_way) continue;
      (is_there ? incomplete : missing).push_back(*trial);
    }
    missing.resize(std::min(missing.size(), static_cast<std::size_t>(std::max(room, 0))));
    missing.insert(missing.begin(), incomplete.begin(), incomplete.end());
    if (missing.empty()) return;
    const TrialRuns::Created made = runs_.create(missing, objects.owner, go_on);
    more_ = more_ || made.begun < missing.size();
    for (std::size_t i = 0; i < made.begun; ++i)
      created_[trial_run(sweep_, missing[i].hash, missing[i].attempt)] = steady_clock::now();
    if (!made.refused.empty()) take_refusals(objects, status, made);
  }

  // The newest try of each trial that is a run and has not ended.
  static std::vector<const TrialLine*> going_on(const SweepStatus& status, const std::vector<Batch>& batches,
                                                const std::vector<TrialLine>& fresh) {
    std::map<int, const TrialLine*> newest;
    for (const Batch& batch : batches) {
      for (const TrialLine& trial : batch.trials) newest[trial.number] = batch.by_cluster ? nullptr : &trial;
    }
    for (const Trial& trial : status.trials) {
      if (has_ended(trial.state)) newest.erase(trial.number);
    }
    for (const TrialLine& trial : fresh) newest[trial.number] = &trial;
    std::vector<const TrialLine*> out;
    for (const auto& [number, trial] : newest) {
      if (trial != nullptr) out.push_back(trial);
    }
    return out;
  }

  // Handles trials that the cluster has refused. If a quota is exceeded, a later round tries the trial again;
  // otherwise the trial has failed. If the first trials of a sweep are all refused, removes the whole sweep.
  void take_refusals(const SweepObjects& objects, const SweepStatus& status,
                     const TrialRuns::Created& created) {
    const Error& first = created.refused.front().why;
    const bool any_ended = std::any_of(status.trials.begin(), status.trials.end(),
                                       [](const Trial& trial) { return has_ended(trial.state); });
    const bool any_there = any_ended || !status.runs.empty() || !objects.jobs.empty();
    if (!any_there && created.refused.size() == created.begun) {
      Creation(client_, request_.name_space, hooks_.submit).undo(sweep_, kube::uid_of(objects.owner));
      throw Error(ExitCode::cannot_start, first.what(), first.hint());
    }
    std::vector<Trial> failed;
    for (const auto& [line, why] : created.refused) {
      if (std::string(why.what()).find("exceeded quota") != std::string::npos) {
        if (refused_ != why.what()) hooks_.submit.note(std::string(why.what()) + "; retrying");
        refused_ = why.what();
        created_.erase(trial_run(sweep_, line.hash, line.attempt));
        continue;
      }
      Trial trial;
      trial.number = line.number;
      trial.hash = line.hash;
      trial.point = line.point;
      trial.state = TrialState::failed;
      trial.tries = line.attempt;
      trial.failure = printable(why.what());
      trial.ended = now();
      failed.push_back(std::move(trial));
    }
    write_ledger(client_, request_.name_space, objects.owner, objects.config_maps, failed, status.ledger);
  }

  // Marks trials as failed if they can never start, or have waited for longer than start_timeout.
  void fail_those_that_cannot_start(const SweepStatus& status, const Runs& runs) {
    for (const auto& [number, why] : status.waits_for) {
      const auto run = runs.find(status.newest_runs.at(number));
      if (run == runs.end()) continue;
      const bool late = late_starts_.contains(run->first, steady_clock::now());
      if (!late && status.cannot_start_of.count(number) == 0) continue;
      // Reads the run again, since the objects of this round are old if the server has not answered for a
      // while.
      const RunStatus read = observe(fetch_run(client_, request_.name_space, run->first), now());
      const bool waits =
          read.phase == Phase::queued || read.phase == Phase::scheduling || read.phase == Phase::starting;
      if (!waits || (!late && !read.cannot_start)) continue;
      const std::string within = late && !read.cannot_start
                                     ? "it did not start within " + format_duration(late_starts_.timeout())
                                     : "it cannot start";
      fail_trial(client_, request_.name_space, run->second,
                 within + (read.why.empty() ? "" : ": " + read.why));
    }
  }

  void end(const SweepObjects& objects, const SweepStatus& status, bool hopeless) {
    const bool failed = hopeless || (status.counts.succeeded == 0 && status.counts.failed > 0);
    set_phase(objects, status, to_string(failed ? Phase::failed : Phase::succeeded));
  }

  void set_phase(const SweepObjects& objects, const SweepStatus& status, const json& phase) {
    Record record = read_record(objects.owner);  // another command may have changed fields of the record
    record.trials = static_cast<int>(status.trials.size());
    if (phase.is_null()) record.trials = std::max(record.trials, planned_trials(request_.definition));
    record.driven = true;
    write_phase(client_, request_.name_space, objects.owner, record, phase);
  }

  kube::Client& client_;
  const StartRequest& request_;
  const DriveHooks& hooks_;
  const std::string sweep_;
  TrialRuns runs_;
  std::map<int, Trial> told_;  // the reports that were read so far, by the number of the trial
  std::map<std::string, steady_clock::time_point>
      created_;             // runs that no watch has reported yet, and when they were created
  bool more_ = true;        // there is more work, or no round has begun yet
  bool is_listed_ = false;  // the objects of this round were listed, not watched
  std::string refused_;     // the last message about an exceeded quota
  LateStarts late_starts_;
  EndedRuns ended_;
  std::optional<steady_clock::time_point> failing_since_;
  bool has_worked_ = false;
  bool left_to_others_ = false;  // every trial known to this driver has ended, but more will be added
  steady_clock::time_point stepped_{}, judged_{};
};

}  // namespace

SweepStatus drive(kube::Client& client, const StartRequest& request, const DriveHooks& hooks) {
  return Driver(client, request, hooks).run();
}

}  // namespace mlk::sweeps
