// Trials that are runs of their own: several roles, or values that need another pod.
#pragma once

#include <string>
#include <vector>

#include "cli/run/creation.h"
#include "cli/run/status.h"
#include "cli/util/error.h"
#include "sweeps/definition.h"
#include "sweeps/registry.h"
#include "sweeps/trial.h"
#include "sweeps/trial_values.h"

namespace mlk::sweeps {

// "digits-abcde-fghijk": follows from the sweep, the point and the try, so that no try is started twice.
std::string trial_run(const std::string& sweep, const std::string& hash, int attempt = 1);

// The runs of all trials, by their names. Pure.
std::map<std::string, RunObjects> runs_of(const SweepObjects& objects);

// A trial as its run tells it. `trial` has number, hash and point.
void read_run(const RunStatus& run, const std::optional<Objective>& objective, Trial& trial);

class TrialRuns {
 public:
  // References must outlive it.
  TrialRuns(kube::Client& client, const std::string& name_space, const std::string& version, bool local,
            const Definition& definition, const Surroundings& surroundings, const Templates& templates,
            const SubmitHooks& hooks);

  // Throws Error{usage} when the trial cannot be run.
  void check(const Point& point) const;

  // Creates what is missing of the runs of these trials, several side by side. Safe to repeat. Returns those
  // that the cluster refused, of which nothing is left. Throws the first other Error; the others are created
  // all the same.
  struct Refusal {
    TrialLine trial;
    Error why;
  };
  std::vector<Refusal> create(const std::vector<TrialLine>& trials, const std::string& sweep_uid);

 private:
  void create_one(const TrialLine& trial, const std::string& sweep_uid);
  Rendered render_of(const TrialLine& trial, const std::string& owner_uid) const;

  kube::Client& client_;
  const std::string& name_space_;
  const std::string version_;
  const bool local_;
  const Definition& definition_;
  const Templates& templates_;
  const SubmitHooks& hooks_;
  const std::vector<std::string> job_types_;
  const Experiments experiments_;
};

}  // namespace mlk::sweeps
