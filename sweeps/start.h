// Starting a sweep, or what it lacks: may be cut off and repeated at any point, and never starts a trial
// twice.
#pragma once

#include <string>
#include <vector>

#include "cli/run/creation.h"
#include "sweeps/definition.h"

namespace mlk::sweeps {

struct StartRequest {
  const Definition& definition;
  const Surroundings& surroundings;  // of the experiment file
  const Templates& templates;
  std::string name_space;
  std::string version;  // of mlk
  bool local = false;
  bool retry_failed = false;  // trials that have failed are started again
  bool dry_run = false;       // checked by the server, nothing is stored
};

struct Started {
  std::string sweep;
  int trials = 0;   // of the sweep, with those that were there
  int started = 0;  // by this call
  int jobs = 0;     // that this call made
  int retried = 0;  // of those started, trials that had failed
};

// A trial for each point. Trials that one Job can do. Throws Error: usage for a point that cannot be run or
// that one Job cannot do; else as submit_run().
Started start_by_cluster(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks);

// Why mlk has to start the trials one by one: "mode ps has several processes", "workers.cpu differs from
// trial to trial". Empty when one Job can do them. Throws Error{usage} for a point that cannot be run.
std::string why_driven(const StartRequest& request, const SubmitHooks& hooks);

// How many trials may fail before the sweep ends, when it does not say: a tenth, and at least 3.
int usual_failures(std::size_t trials);

}  // namespace mlk::sweeps
