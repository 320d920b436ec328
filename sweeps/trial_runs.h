// Trials that are runs of their own: several roles, or values that need another pod.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cli/run/creation.h"
#include "cli/run/status.h"
#include "sweeps/definition.h"
#include "sweeps/registry.h"
#include "sweeps/trial.h"
#include "sweeps/trial_values.h"

namespace mlk::sweeps {

// "digits-abcde-fghijk": follows from the sweep and the point, so that a trial is never started twice.
std::string trial_run(const std::string& sweep, const std::string& hash);

// The run of each trial that has one, by its name. Pure.
std::map<std::string, RunObjects> runs_of(const SweepObjects& objects);
// The same, without a copy of them all: they are moved out of `objects`.
std::map<std::string, RunObjects> take_runs(SweepObjects& objects);

// A trial as its run tells it. `trial` has number, hash and point.
void read_run(const RunStatus& run, const std::optional<Objective>& objective, Trial& trial);

class TrialRuns {
 public:
  // References must outlive it. The hooks are called by one thread at a time, which may be any.
  TrialRuns(kube::Client& client, const std::string& name_space, const std::string& version, bool local,
            const Definition& definition, const Surroundings& surroundings, const Templates& templates,
            const SubmitHooks& hooks);

  // Throws Error{usage} when the trial cannot be run.
  void check(const Point& point) const;

  // Creates what is missing of the runs of these trials, several side by side and in their order, until that
  // time: whoever holds a Lease must come back to it. Safe to repeat. How many it came to. Throws the first
  // Error; the others are created all the same.
  std::size_t create(const std::vector<TrialLine>& trials, const std::string& sweep_uid,
                     std::chrono::steady_clock::time_point until);

 private:
  void create_one(const TrialLine& trial, const std::string& sweep_uid);
  RenderOptions options_of(const TrialLine& trial) const;

  kube::Client& client_;
  const std::string& name_space_;
  const std::string version_;
  const bool local_;
  const Definition& definition_;
  const Templates& templates_;
  std::mutex hooks_mutex_;
  const SubmitHooks hooks_;
  const std::vector<std::string> job_types_;
  const Experiments experiments_;
};

}  // namespace mlk::sweeps
