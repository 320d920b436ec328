// Trials that are separate runs, since the cluster cannot run them as indexes of one Job (why_driven()).
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cli/run/change/creation.h"
#include "cli/run/state/status.h"
#include "cli/util/error.h"
#include "sweeps/objects/objects.h"
#include "sweeps/search/definition.h"
#include "sweeps/space/trial.h"
#include "sweeps/space/trial_values.h"

namespace mlk::sweeps {

// "digits-abcde-fghijk": the name of the run. mlk computes it from the sweep, the point and the try, so that
// each try is started only once.
std::string trial_run(const std::string& sweep, const std::string& hash, int attempt = 1);

// The runs of all trials, by their names. Pure.
std::map<std::string, RunObjects> runs_of(const SweepObjects& objects);
// Like runs_of(), but moves the runs out of `objects` and copies nothing.
std::map<std::string, RunObjects> extract_runs(SweepObjects& objects);

// Copies the state and the reports of a run into its trial. `trial` must have its number, hash and point.
void read_run(const RunStatus& run, const std::optional<Objective>& objective, Trial& trial);

class TrialRuns {
 public:
  // The referenced arguments must outlive this object. The hooks may be called by any thread, but only by one
  // thread at a time.
  TrialRuns(kube::Client& client, const std::string& name_space, const std::string& version, bool local,
            const Definition& definition, const FileContext& file_context, const Templates& templates,
            const SubmitHooks& hooks);

  // Checks the points, several in parallel, and throws the Error of the first point that cannot be run.
  // Returns the rights for creating the objects of the trials, beyond the rights that every run needs.
  [[nodiscard]] std::vector<kube::AccessQuestion> check(const std::vector<Point>& points);

  struct RefusedTrial {
    TrialLine trial;
    Error why;
  };
  struct Created {
    std::size_t begun = 0;              // how many trials were begun, from the first one on
    std::vector<RefusedTrial> refused;  // trials that the cluster has refused; their objects are removed
  };
  // Creates the missing objects of these trials' runs, several runs in parallel. Begins the trials in their
  // order. `sweep`: the owner of the sweep, whose submitter also is the submitter of its trials. `go_on` is
  // called by the calling thread, several times a second; if `go_on` returns false or throws, create() begins
  // no further trial. Repeating the call is safe. Throws the first Error that is not a refusal, after
  // creating the other runs.
  Created create(const std::vector<TrialLine>& trials, const nlohmann::json& sweep,
                 const std::function<bool()>& go_on);

 private:
  std::vector<kube::AccessQuestion> check_one(const Point& point) const;
  void create_one(const TrialLine& trial, const nlohmann::json& sweep_owner);
  RenderOptions options_of(const TrialLine& trial) const;

  kube::Client& client_;
  const std::string& name_space_;
  const std::string version_;
  const bool local_;
  const Definition& definition_;
  const Templates& templates_;
  std::mutex hooks_mutex_;
  const SubmitHooks hooks_;
  const TemplateNames template_names_;
  const Experiments experiments_;
};

}  // namespace mlk::sweeps
