// Trials that are indexes of Jobs, which the cluster runs by itself.
#pragma once

#include <string>
#include <vector>

#include "cli/run/creation.h"
#include "sweeps/registry.h"
#include "sweeps/start.h"
#include "sweeps/trial_values.h"

namespace mlk::sweeps {

// Which trials of a sweep there are is written down, in a ConfigMap for each Job, before any of its Jobs is
// created: whoever goes on after a cut knows how many Jobs there are. What is created twice is there once.
class TrialIndexes {
 public:
  // References must outlive it. `owner_uid`: of the sweep's owner; empty for a check on the server alone.
  TrialIndexes(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks,
               std::string owner_uid);

  // False when other trials stand there under this number: somebody else has added them at the same time.
  bool write_down(int number, const std::vector<TrialLine>& trials);

  // Creates the Jobs that are missing of trials which are written down. Returns those batches.
  std::vector<const Batch*> start_missing(const std::vector<Batch>& batches);

  // `job` but for its may_fail.
  TrialsObjects objects_of(TrialsJob job) const;

  // Deletes what this object has created.
  void take_back();

 private:
  const StartRequest& request_;
  const Definition& definition_;
  const std::vector<std::string> job_types_;
  const Experiments experiments_;
  Creation creation_;
  RenderOptions options_;
  std::vector<nlohmann::json> created_;
};

}  // namespace mlk::sweeps
