// Submitting a run: never two of one experiment, never half of one that looks whole.
#pragma once

#include <string>

#include "cli/kube/client.h"
#include "cli/render/render.h"
#include "cli/run/creation.h"

namespace mlk {

struct SubmitRequest {
  const Experiment& experiment;
  const FileContents& files;
  const Templates& templates;
  std::string name_space;
  std::string version;   // of mlk
  bool again = false;    // a new run of the same experiment when the newest one has ended
  bool dry_run = false;  // checked by the server, nothing is stored
};

enum class SubmitOutcome {
  created,
  completed,  // an earlier submit was cut off: what it lacked is there now
  running,    // it was there already, whole
  stopped,    // it was there already, and is stopped
  ended,      // it was there already, and has ended
};

struct Submitted {
  std::string run;
  SubmitOutcome outcome = SubmitOutcome::created;
};

// Asks first what the user may do. Throws Error: cluster when it may not or the cluster cannot be reached,
// cannot_start when an object is refused or a field of it was dropped; what this call created is then deleted
// again.
Submitted submit_run(kube::Client& client, const SubmitRequest& request, const SubmitHooks& hooks);

}  // namespace mlk
