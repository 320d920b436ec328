// Submits a run: never creates two runs of one experiment, and never a part of one that looks complete.
#pragma once

#include <optional>
#include <string>

#include "cli/kube/client.h"
#include "cli/render/render.h"
#include "cli/run/change/creation.h"
#include "cli/run/state/status.h"

namespace mlk {

struct SubmitRequest {
  const Experiment& experiment;
  const FileContents& files;
  const Templates& templates;
  std::string name_space;
  std::string version;  // of mlk
  bool local = false;   // to the embedded cluster, and with so many GPUs of this machine
  int local_gpus = 0;
  bool again = false;    // a new run of the same experiment when the newest one has ended
  bool dry_run = false;  // checked by the server, nothing is stored
};

enum class SubmitOutcome {
  created,
  completed,  // an earlier submit was cut off; its missing objects were created now
  running,    // it existed already, completely
  stopped,    // it existed already, and is stopped
  ended,      // it existed already, and has ended, or its Job is gone
};

struct Submitted {
  std::string run;
  SubmitOutcome outcome = SubmitOutcome::created;
  std::optional<RunStatus> status{};  // of a run that existed already
};

// The run as its first submit makes it, with a key of its own. Pure but for the key.
Rendered render_run(const SubmitRequest& request);

// Submits what render_run() has rendered of the request. First asks what the user may do. The outcome of a
// dry run is that of the submit that it stands for. Throws Error: cluster if the user may not, or the cluster
// cannot be reached; cannot_start if an object is refused or a field of it was dropped. Then everything that
// this call has created is deleted again.
Submitted submit_run(kube::Client& client, const SubmitRequest& request, Rendered rendered,
                     const SubmitHooks& hooks);

}  // namespace mlk
