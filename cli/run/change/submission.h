// Submits a run. Never creates a second run of an experiment while the first run continues, and never leaves
// a partial run that looks complete.
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
  bool local = false;   // to the embedded cluster, with `local_gpus` GPUs of this machine
  int local_gpus = 0;
  bool again = false;         // make a new run if the newest run has ended or is stopped
  bool dry_run = false;       // checked by the server, nothing is stored
  std::string checkpoints{};  // the folder of the checkpoints that a new run continues; empty: its own
};

enum class SubmitOutcome {
  created,
  completed,  // an earlier submit was cut off, and this call created the missing objects
  running,    // the run existed already, with all its objects
  stopped,    // the run existed already, and is stopped
  ended,      // the run existed already; it has ended, or its Job is gone
};

struct Submitted {
  std::string run;
  SubmitOutcome outcome = SubmitOutcome::created;
  std::optional<RunStatus> status{};  // of a run that existed already
  std::string submitter{};            // the user who submitted that run, if it is another user
};

// Renders the experiment's first run, whose name ends without the number of an attempt. The run gets a new
// random key. Pure except for this key.
Rendered render_run(const SubmitRequest& request);

// Submits the objects that render_run() has rendered from the request. First asks the server for the user's
// rights. The outcome of a dry run is the outcome that the real submit would have. Throws Error: cluster if
// the user lacks a right or the cluster cannot be reached; cannot_start if the server refuses an object or
// drops a field of it. After such a refusal or drop, the run is deleted again, except if an earlier submit
// has begun it.
Submitted submit_run(kube::Client& client, const SubmitRequest& request, Rendered rendered,
                     const SubmitHooks& hooks);

}  // namespace mlk
