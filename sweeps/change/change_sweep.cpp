#include "sweeps/change/change_sweep.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/change/suspend.h"
#include "cli/run/facts/labels.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/read/fetch.h"
#include "sweeps/trials/control.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk {
namespace {

using nlohmann::json;

sweeps::SweepObjects objects_of(kube::Client& client, const std::string& sweep) {
  return sweeps::fetch_sweep(client, client.config().name_space, sweep, sweeps::WithPods::yes);
}

sweeps::SweepStatus status_of(const sweeps::SweepObjects& objects) {
  return sweeps::observe_sweep(objects, std::chrono::system_clock::now());
}

bool has_annotation(const json& owner, const char* name) { return !kube::annotation_of(owner, name).empty(); }

bool report_if_ended(const sweeps::SweepStatus& status, const ChangeHooks& hooks) {
  if (!is_final(status.phase)) return false;
  hooks.note("sweep " + status.sweep + " has ended already: " + std::string(to_string(status.phase)));
  return true;
}

// Finds single trials of a driven sweep, and the run of each trial that has a run.
class ChosenTrials {
 public:
  ChosenTrials(kube::Client& client, const std::string& sweep, const std::string& doing)
      : objects_(objects_of(client, sweep)),
        status_(status_of(objects_)),
        runs_(sweeps::runs_of(objects_)),
        doing_(doing) {}

  // Throws Error{not_found} if no trial has this number, and Error{usage} if the trial is an index of a Job.
  const sweeps::Trial& trial(int number) const {
    const auto found = std::ranges::find(status_.trials, number, &sweeps::Trial::number);
    if (found == status_.trials.end()) {
      throw Error(ExitCode::not_found, fmt::format("sweep {} has no trial {}", status_.sweep, number),
                  "list them with: mlk results " + status_.sweep);
    }
    if (status_.newest_runs.count(number) == 1) return *found;
    throw Error(ExitCode::usage,
                fmt::format("the cluster runs {} by itself, as an index of a Job, and cannot {} it alone",
                            name(number), doing_),
                fmt::format("{} the whole sweep: mlk {} {}", doing_, doing_, status_.sweep));
  }
  // The run of the trial's newest try. nullptr if the cluster has no such run.
  const RunObjects* run(int number) const {
    const auto found = runs_.find(status_.newest_runs.at(number));
    return found == runs_.end() ? nullptr : &found->second;
  }
  std::vector<json> owners(int number) const {  // of the runs of all tries
    std::vector<json> out;
    for (const auto& [name, run] : runs_) {
      if (kube::annotation_of(run.owner, annotations::trial) == std::to_string(number))
        out.push_back(run.owner);
    }
    return out;
  }
  std::string name(int number) const { return fmt::format("{}/{}", status_.sweep, number); }
  const sweeps::SweepObjects& objects() const { return objects_; }
  const sweeps::SweepStatus& status() const { return status_; }

 private:
  const sweeps::SweepObjects objects_;
  const sweeps::SweepStatus status_;
  const std::map<std::string, RunObjects> runs_;
  const std::string doing_;
};

}  // namespace

void stop_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks) {
  const sweeps::SweepObjects objects = objects_of(client, sweep);
  if (report_if_ended(status_of(objects), hooks)) return;
  sweeps::stop_sweep(client, client.config().name_space, objects);
  hooks.note("stopped " + sweep +
             ": trials that were running start again from their checkpoints, or from "
             "step 0 without; let it go on with: " +
             hooks.command("resume " + sweep));
}

void drain_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks) {
  const sweeps::SweepObjects objects = objects_of(client, sweep);
  const sweeps::SweepStatus status = status_of(objects);
  if (report_if_ended(status, hooks)) return;
  if (!status.record.driven || status.jobs_go_on) {
    throw Error(ExitCode::usage,
                "the cluster runs the trials of " + sweep +
                    " by itself, so mlk cannot drain the sweep: a Job that gets a smaller number of pods "
                    "deletes running pods",
                "stop it at once with: " + hooks.command("stop " + sweep));
  }
  if (has_annotation(objects.owner, annotations::stopped)) {
    hooks.note("sweep " + sweep + " is stopped already");
    return;
  }
  if (!status.draining) sweeps::drain_sweep(client, client.config().name_space, sweep);
  hooks.note(fmt::format("no more trials of {} are started; {} run to their end: {}", sweep,
                         status.counts.running, hooks.command("wait " + sweep)));
  hooks.note("let it go on with: " + hooks.command("resume " + sweep));
}

void resume_sweep(kube::Client& client, const std::string& sweep, const ChangeHooks& hooks) {
  const sweeps::SweepObjects objects = objects_of(client, sweep);
  const bool stopped = has_annotation(objects.owner, annotations::stopped);
  if (!stopped && !has_annotation(objects.owner, annotations::draining)) {
    hooks.note("sweep " + sweep + " is not stopped");
    return;
  }
  sweeps::resume_sweep(client, client.config().name_space, objects);
  hooks.note("resumed " + sweep);
  const sweeps::SweepStatus status = status_of(objects);
  if (!status.record.driven) return;
  hooks.note(status.driver.goes_on
                 ? "its trials go on, and its driver in the cluster starts the next ones"
                 : "its trials go on; mlk starts the next ones when its sweep command is typed again");
}

void stop_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                 const ChangeHooks& hooks) {
  const ChosenTrials trials(client, sweep, "stop");
  for (const int number : numbers) {
    const sweeps::Trial& trial = trials.trial(number);
    const RunObjects* run = trials.run(number);
    // If a trial is already marked as stopped, stops it again, since the earlier stop may have been cut off
    // in the middle.
    const bool is_stopped =
        trial.state == sweeps::TrialState::stopped && run != nullptr && sweeps::goes_on_later(run->owner);
    if (sweeps::has_ended(trial.state) && !is_stopped) {
      hooks.note(fmt::format("{} has ended already: {}", trials.name(number), to_string(trial.state)));
    } else if (run == nullptr) {
      hooks.note(trials.name(number) + " has not been started, and is left as it is");
    } else {
      sweeps::stop_trial(client, client.config().name_space, *run);
      hooks.note("stopped " + trials.name(number) +
                 "; let it go on with: " + hooks.command("resume " + trials.name(number)));
    }
  }
}

void resume_trials(kube::Client& client, const std::string& sweep, const std::vector<int>& numbers,
                   const ChangeHooks& hooks) {
  const ChosenTrials trials(client, sweep, "resume");
  for (const int number : numbers) {
    const sweeps::Trial& trial = trials.trial(number);
    const RunObjects* run = trials.run(number);
    if (run != nullptr && sweeps::goes_on_later(run->owner)) {
      resume_run(client, client.config().name_space, *run);
      hooks.note("resumed " + trials.name(number));
    } else {
      const std::string why = trial.failure.empty() ? "" : ", " + trial.failure;
      hooks.note(fmt::format("{} is not stopped: {}{}", trials.name(number), to_string(trial.state), why));
    }
  }
}

std::vector<json> give_up_trials(kube::Client& client, const std::string& sweep,
                                 const std::vector<int>& numbers, const ChangeHooks& hooks) {
  const std::string& name_space = client.config().name_space;
  // Stores the reports from the logs in the ledger, since the logs are deleted together with the pods.
  sweeps::read_sweep(client, name_space, sweep, sweeps::Harvest::all);
  const ChosenTrials trials(client, sweep, "delete");
  std::vector<json> owners;
  std::vector<sweeps::Trial> written;
  for (const int number : numbers) {
    sweeps::Trial trial = trials.trial(number);
    const std::vector<json> of_trial = trials.owners(number);
    if (of_trial.empty()) hooks.note(trials.name(number) + " has no run");
    if (!sweeps::has_ended(trial.state) || trial.state == sweeps::TrialState::stopped) {
      trial.state = sweeps::TrialState::stopped;
      trial.tries = std::max(trial.tries, 1);
      if (trial.failure.empty()) trial.failure = "deleted";
    }
    written.push_back(std::move(trial));
    owners.insert(owners.end(), of_trial.begin(), of_trial.end());
  }
  std::string problem;
  if (!sweeps::write_ledger(client, name_space, trials.objects().owner, trials.objects().config_maps, written,
                            trials.status().ledger, &problem))
    throw Error(ExitCode::failure, "the results of the trials could not be stored: " + problem);
  return owners;
}

}  // namespace mlk
