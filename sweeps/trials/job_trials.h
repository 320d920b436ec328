// Trials that are indexes of Jobs, which the cluster runs by itself.
#pragma once

#include <string>
#include <vector>

#include "cli/run/change/creation.h"
#include "sweeps/space/trial_values.h"
#include "sweeps/trials/objects.h"
#include "sweeps/trials/start.h"

namespace mlk::sweeps {

// Registers the trials in one ConfigMap for each Job, before any of the Jobs is created: after a cut another
// process knows how many Jobs there are. Creating an object twice gives one object.
class TrialIndexes {
 public:
  // References must outlive it. `owner_uid`: of the sweep's owner; empty for a check on the server alone.
  TrialIndexes(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks,
               std::string owner_uid);

  // False if there are other trials under this number: another process has added them at the same time.
  bool write_down(int number, const std::vector<TrialLine>& trials);

  // Creates the missing Jobs of registered trials, except those that were made before and are gone. Returns
  // their batches.
  std::vector<const Batch*> start_missing(const std::vector<Batch>& batches);

  // After start_missing(): the owner says that the Jobs of all these were made (run/facts/absence.h).
  void mark_made(const std::vector<Batch>& batches, const nlohmann::json& owner);

  // `job`, without its may_fail.
  TrialsObjects objects_of(TrialsJob job) const;

  // Deletes everything that this object has created.
  void take_back();

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
