// Trials that are indexes of Jobs. The cluster runs them without a driver.
#pragma once

#include <string>
#include <vector>

#include "cli/run/change/creation.h"
#include "sweeps/objects/objects.h"
#include "sweeps/space/trial_values.h"
#include "sweeps/start/start.h"

namespace mlk::sweeps {

// The trials are registered in one ConfigMap for each Job before any Job is created. So if this process is
// cut off, another process can see how many Jobs are needed. Creation is idempotent.
class TrialIndexes {
 public:
  // The referenced arguments must outlive this object. `owner_uid`: the uid of the sweep's owner; empty if
  // the server only checks the objects.
  TrialIndexes(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks,
               std::string owner_uid);

  // Registers the trials of Job `number`. Returns false if another process has registered other trials for
  // this Job.
  bool write_down(int number, const std::vector<TrialLine>& trials);

  // Creates the Job of each batch whose Job was never made, and returns these batches. A Job that was made
  // before and is gone now is not made again.
  std::vector<const Batch*> start_missing(const std::vector<Batch>& batches);

  // Records in the owner that the Jobs of all these batches were made (run/facts/absence.h). Call this
  // function after start_missing().
  void mark_made(const std::vector<Batch>& batches, const nlohmann::json& owner);

  // Renders `job`, with a may_fail that follows from the definition.
  TrialsObjects objects_of(TrialsJob job) const;

  // Deletes everything that this object has created.
  void undo();

 private:
  kube::Client& client_;
  const StartRequest& request_;
  const Definition& definition_;
  const TemplateNames template_names_;
  const Experiments experiments_;
  Creation creation_;
  RenderOptions options_;
  const std::string owner_uid_;
  std::vector<nlohmann::json> created_;
};

}  // namespace mlk::sweeps
