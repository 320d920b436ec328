#include "sweeps/drive.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/render/merge.h"
#include "cli/run/facts.h"
#include "cli/run/labels.h"
#include "cli/run/record.h"
#include "cli/util/hash.h"
#include "cli/util/time.h"
#include "sweeps/control.h"
#include "sweeps/decide.h"
#include "sweeps/fetch.h"
#include "sweeps/lease.h"
#include "sweeps/ledger_store.h"
#include "sweeps/record.h"
#include "sweeps/trial_runs.h"
#include "sweeps/watch.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds tick{200};
// Of processes of an ended trial: those of a trained one end by themselves within a minute (CONTRACT.md).
constexpr std::chrono::seconds patience_with_pods{75};
constexpr std::chrono::seconds pause_after_trouble{1};
constexpr std::chrono::minutes longest_trouble{30};
constexpr std::chrono::seconds look_again{
    5};  // also when no watch has told of a change; the Lease lasts 15 s

Time now() { return std::chrono::system_clock::now(); }

class Driver {
 public:
  Driver(kube::Client& client, const StartRequest& request, const DriveHooks& hooks)
      : client_(client),
        request_(request),
        hooks_(hooks),
        sweep_(request.definition.identity.run),
        runs_(client, request.name_space, request.version, request.local, request.definition,
              request.surroundings, request.templates, hooks.submit) {}

  SweepStatus run() {
    SweepWatch watch(client_, request_.name_space, sweep_);
    std::optional<DriverLease> lease;
    bool looked = false;
    while (true) {
      hooks_.submit.check_interrupted();
      const bool changed = watch.wait(tick);
      const bool due = steady_clock::now() - stepped_ > (judges() ? hooks_.judge_every : look_again);
      if (!changed && looked && !due) continue;
      const std::optional<SweepObjects> objects = watch.objects();
      if (!objects) continue;
      if (!lease) lease.emplace(client_, request_.name_space, sweep_, kube::uid_of(objects->owner));
      const SweepStatus status = look(*objects);
      hooks_.changed(status);
      looked = true;
      if (is_over(*objects, status)) {
        lease->release();
        return read_sweep(client_, request_.name_space, sweep_, Harvest::all);
      }
      if (!lease->hold()) {
        hooks_.waiting(lease->holder());
        continue;
      }
      stepped_ = steady_clock::now();
      try_step(*objects, status);
    }
  }

 private:
  bool judges() const { return request_.definition.spec.stop.rule != EarlyStop::Rule::none; }

  NextStep next_step(const SweepObjects& objects, const SweepStatus& status) const {
    return decide(request_.definition.spec, request_.definition.points, status.trials,
                  read_record(objects.owner).max_failures);
  }

  // An ended sweep goes on when this command has points that it lacks: they were added while another drove
  // it.
  bool is_over(const SweepObjects& objects, const SweepStatus& status) const {
    if (is_final(status.phase)) return next_step(objects, status).start.empty();
    const bool stopped = status.phase == Phase::stopped && status.counts.running == 0;
    return stopped && std::all_of(objects.jobs.begin(), objects.jobs.end(), [](const json& job) {
             return at_path(job, {"spec", "suspend"}) == true ||
                    !at_path(job, {"status", "conditions"}).empty();
           });
  }

  // What the server cannot do now is done at a later look: a sweep runs for days.
  void try_step(const SweepObjects& objects, const SweepStatus& status) {
    try {
      step(objects, status);
      failing_since_.reset();
    } catch (const Error& error) {
      const auto* answer = dynamic_cast<const kube::ApiError*>(&error);
      const int code = answer == nullptr ? 0 : answer->status();
      const bool transient = error.code() == ExitCode::cluster || (answer != nullptr && code == 404);
      const bool final_answer = code == 400 || code == 401 || code == 403 || code == 422;
      if (!transient || final_answer) throw;
      if (!failing_since_) failing_since_ = steady_clock::now();
      if (steady_clock::now() - *failing_since_ > longest_trouble) throw;
      hooks_.submit.note(std::string(error.what()) + "; trying on");
      std::this_thread::sleep_for(pause_after_trouble);
    }
  }

  // With what the logs tell of trials that left no result; each is read once, when it has ended.
  SweepStatus look(const SweepObjects& objects) {
    SweepStatus status = observe_sweep(objects, now());
    if (judges() && steady_clock::now() - judged_ > hooks_.judge_every) {
      judged_ = steady_clock::now();
      harvest_running(client_, request_.name_space, status, told_);
    }
    harvest_ended(client_, request_.name_space, status, told_);
    return status;
  }

  // One decision, and what follows from it. Whatever is cut off here the next call does.
  void step(const SweepObjects& objects, const SweepStatus& status) {
    const std::map<std::string, RunObjects> runs = runs_of(objects);
    settle_ended(runs);
    write_ledger(client_, request_.name_space, objects.owner, objects.config_maps, status.trials);
    if (status.phase == Phase::stopped) return stop_all(runs);
    if (is_final(status.phase)) return reopen(objects, status);
    const NextStep next = next_step(objects, status);
    carry_out(objects, status, runs, next.judged);
    for (const auto& [name, run] : runs) {
      if (!is_final(observe(run, now()).phase)) settle_pause(client_, request_.name_space, run);
    }
    if (next.hopeless) {
      stop_all(runs);
    } else {
      start_missing(objects, status, runs, register_trials(objects, status, next.start));
    }
    // One that was written down and never started does not count: nothing is started any more.
    const bool runs_on = std::any_of(status.trials.begin(), status.trials.end(), [&](const Trial& trial) {
      return !has_ended(trial.state) && runs.count(trial_run(sweep_, trial.hash)) == 1;
    });
    if (next.ended || (next.hopeless && !runs_on)) end(objects, status, next.hopeless);
  }

  // The final records of trials, while their pods are there; and Jobs that nobody needs any more.
  void settle_ended(const std::map<std::string, RunObjects>& runs) {
    for (const auto& [name, run] : runs) {
      if (settled_.count(name) == 1) continue;
      const RunStatus status = observe(run, now());
      if (!is_final(status.phase) && status.phase != Phase::stopped) continue;
      if (status.phase == Phase::stopped) continue;
      const auto [since, first] = ended_since_.try_emplace(name, steady_clock::now());
      if (has_running_pods(run) && steady_clock::now() - since->second < patience_with_pods) continue;
      write_record(client_, request_.name_space, run.owner, status);
      suspend_what_goes_on(client_, request_.name_space, run);
      settled_.insert(name);
    }
  }

  void stop_all(const std::map<std::string, RunObjects>& runs) {
    for (const auto& [name, run] : runs) {
      if (!is_final(observe(run, now()).phase)) stop_trial(client_, request_.name_space, run);
    }
  }

  // What early stopping has decided. The pods of a trial that ends take their logs with them: what it has
  // told is written down before.
  void carry_out(const SweepObjects& objects, const SweepStatus& status,
                 const std::map<std::string, RunObjects>& runs, const std::vector<Decision>& decisions) {
    std::map<int, Trial> trials;
    for (const Trial& trial : status.trials) trials[trial.number] = trial;
    std::vector<Trial> ending;
    for (const Decision& decision : decisions) {
      if (decision.kind != Decision::Kind::promote) ending.push_back(trials.at(decision.number));
    }
    if (!write_lines(client_, request_.name_space, objects.owner, objects.config_maps, ending)) return;
    for (const Decision& decision : decisions) {
      const Trial& trial = trials.at(decision.number);
      const auto run = runs.find(trial_run(sweep_, trial.hash));
      if (run != runs.end()) carry_out(decision, trial, run->second);
    }
  }

  void carry_out(const Decision& decision, const Trial& trial, const RunObjects& run) {
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

  // Written down before they are started, so that numbers and trials are never given twice. Empty when
  // somebody else has written meanwhile: the next look knows more.
  std::vector<TrialLine> register_trials(const SweepObjects& objects, const SweepStatus& status,
                                         const std::vector<Point>& points) {
    std::vector<TrialLine> lines;
    if (points.empty()) return lines;
    int number = status.trials.empty() ? 0 : status.trials.back().number + 1;
    std::string text;
    for (const Point& point : points) {
      lines.push_back({number++, hash_of(point), point, {}});
      text += points_line(lines.back()) + "\n";
    }
    const std::vector<Batch> batches = batches_of(objects);
    const int last = batches.empty() ? -1 : batches.back().job;
    const auto map =
        std::find_if(objects.config_maps.begin(), objects.config_maps.end(),
                     [&](const json& each) { return kube::name_of(each) == job_name(sweep_, last); });
    const std::string before =
        map == objects.config_maps.end() ? "" : text_of(*map, {"data", "points.jsonl"});
    const bool fits = map != objects.config_maps.end() && before.size() + text.size() <= most_points_bytes;
    try {
      if (fits) {
        client_.patch(kube::resources::config_maps, request_.name_space, kube::name_of(*map),
                      {{"metadata", {{"resourceVersion", text_of(*map, {"metadata", "resourceVersion"})}}},
                       {"data", {{"points.jsonl", before + text}}}});
      } else {
        client_.create(kube::resources::config_maps, request_.name_space,
                       config_map_of(objects.owner, job_name(sweep_, last + 1), "points.jsonl", text));
      }
    } catch (const kube::ApiError& error) {
      if (error.status() == 409) return {};
      throw;
    }
    return lines;
  }

  // Those just registered, and those that an earlier driver wrote down and did not come to start.
  void start_missing(const SweepObjects& objects, const SweepStatus& status,
                     const std::map<std::string, RunObjects>& runs, std::vector<TrialLine> fresh) {
    std::set<int> ended;
    for (const Trial& trial : status.trials) {
      if (has_ended(trial.state)) ended.insert(trial.number);
    }
    for (const Batch& batch : batches_of(objects)) {
      for (const TrialLine& trial : batch.trials) {
        const std::string name = trial_run(sweep_, trial.hash);
        const auto run = runs.find(name);
        if (run != runs.end()) created_.erase(name);  // from now on the watch knows of it
        const bool whole = run != runs.end() && observe(run->second, now()).phase != Phase::incomplete;
        if (whole || ended.count(trial.number) == 1 || created_.count(name) == 1) continue;
        fresh.push_back(trial);
      }
    }
    if (fresh.empty()) return;
    runs_.create(fresh, kube::uid_of(objects.owner));
    for (const TrialLine& trial : fresh) created_.insert(trial_run(sweep_, trial.hash));
  }

  void reopen(const SweepObjects& objects, const SweepStatus& status) { set_phase(objects, status, nullptr); }

  void end(const SweepObjects& objects, const SweepStatus& status, bool hopeless) {
    const bool failed = hopeless || (status.counts.succeeded == 0 && status.counts.failed > 0);
    set_phase(objects, status, to_string(failed ? Phase::failed : Phase::succeeded));
  }

  // Unless somebody else has changed the owner meanwhile: then the next look knows more.
  void set_phase(const SweepObjects& objects, const SweepStatus& status, const json& phase) {
    const int known = static_cast<int>(status.trials.size());
    const int trials = phase.is_null() ? std::max(known, planned_trials(request_.definition)) : known;
    json patch = owner_patch(request_.definition, trials, true);
    patch["metadata"]["annotations"][labels::phase] = phase;
    patch["metadata"]["resourceVersion"] = text_of(objects.owner, {"metadata", "resourceVersion"});
    try {
      client_.patch(kube::resources::config_maps, request_.name_space, sweep_, patch);
    } catch (const kube::ApiError& error) {
      if (error.status() != 409) throw;
    }
  }

  kube::Client& client_;
  const StartRequest& request_;
  const DriveHooks& hooks_;
  const std::string sweep_;
  TrialRuns runs_;
  std::map<int, Trial> told_;  // what logs have told, by the trial's number
  std::set<std::string> settled_, created_;
  std::map<std::string, steady_clock::time_point> ended_since_;  // of runs, as this driver saw it
  std::optional<steady_clock::time_point> failing_since_;
  steady_clock::time_point stepped_{}, judged_{};
};

}  // namespace

Started prepare_driven(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks) {
  const Definition& definition = request.definition;
  if (request.retry_failed) {
    throw Error(
        ExitCode::usage, "--retry-failed is for sweeps that the cluster runs by itself",
        "delete the trials' runs to have them started again: mlk ls --sweep " + definition.identity.run);
  }
  TrialRuns runs(client, request.name_space, request.version, request.local, definition, request.surroundings,
                 request.templates, hooks);
  for (std::size_t i = 0; i < definition.points.size(); ++i) {
    if (i % 256 == 0) hooks.check_interrupted();
    runs.check(definition.points[i]);
  }
  Creation creation(client, request.name_space, hooks);
  creation.ask_what_is_allowed();
  RenderOptions options;
  options.name_space = request.name_space;
  options.version = request.version;
  options.local = request.local;
  options.identity = definition.identity;
  Rendered rendered = render(definition.first, definition.files, request.templates, options);
  const json wanted = merge(rendered.owner, owner_overlay(definition, true));
  if (request.dry_run) {
    creation.check_on_server({wanted});
    return {definition.identity.run, planned_trials(definition), 0, 0, 0};
  }
  const Creation::Owner owner = creation.create_owner(wanted);
  options.owner_uid = kube::uid_of(owner.object);
  rendered = render(definition.first, definition.files, request.templates, options);
  for (const json& object : rendered.objects) {
    const bool data = object["kind"] == "ConfigMap" && kube::name_of(object) != rendered.run + "-config";
    if (data) creation.create_owned(object, options.owner_uid);
  }
  Started out{definition.identity.run, planned_trials(definition), 0, 0, 0};
  if (owner.created) {
    out.started = out.trials;
    return out;
  }
  const SweepStatus status =
      observe_sweep(fetch_sweep(client, request.name_space, definition.identity.run, WithPods::no), now());
  if (!status.record.driven) {
    throw Error(ExitCode::failure,
                definition.identity.run + " is run by the cluster, and these points need runs of their own",
                "give the experiment another name: --set name=NAME");
  }
  std::set<std::string> known;
  for (const Trial& trial : status.trials) known.insert(trial.hash);
  for (const Point& point : definition.points) out.started += known.insert(hash_of(point)).second ? 1 : 0;
  if (definition.spec.search.kind == Search::Kind::tpe)
    out.started = std::max(0, planned_trials(definition) - static_cast<int>(status.trials.size()));
  out.trials = static_cast<int>(status.trials.size()) + out.started;
  json patch = owner_patch(definition, out.trials, true);
  if (out.started > 0) patch["metadata"]["annotations"][labels::phase] = nullptr;
  client.patch(kube::resources::config_maps, request.name_space, out.sweep, patch);
  return out;
}

SweepStatus drive(kube::Client& client, const StartRequest& request, const DriveHooks& hooks) {
  return Driver(client, request, hooks).run();
}

}  // namespace mlk::sweeps
