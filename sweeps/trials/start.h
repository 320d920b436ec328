// Starts a sweep, or its missing trials: may be cut off and repeated at any point, and never starts a trial
// twice.
#pragma once

#include <string>
#include <vector>

#include "cli/render/render.h"
#include "cli/run/change/creation.h"
#include "sweeps/search/definition.h"
#include "sweeps/trials/trials_job.h"

namespace mlk::sweeps {

struct StartRequest {
  const Definition& definition;
  const FileContext& file_context;  // of the experiment file
  const Templates& templates;
  std::string name_space;
  std::string version;  // of mlk
  bool local = false;
  bool detached = false;                                      // a Job in the cluster will drive it
  bool retry_failed = false;                                  // failed trials are started again
  bool dry_run = false;                                       // checked by the server, nothing is stored
  std::size_t most_points_bytes = sweeps::most_points_bytes;  // of the points of one Job
};

struct Started {
  std::string sweep{};
  int trials = 0;        // of the sweep, including existing ones
  int started = 0;       // by this call
  int jobs = 0;          // that this call made
  int retried = 0;       // of those started: trials that had failed
  std::string driven{};  // why drive() has to continue it; empty if the cluster runs it
};

// Starts a trial for each point, as indexes of Jobs; for points for which why_driven() is empty. If the state
// of the sweep on the cluster requires a driver, prepares it for one instead (drive.h). Other processes may
// add trials at the same time: each number is given once. Leaves nothing behind if an object is refused.
// Throws Error: usage for a point that cannot be run; else as submit_run().
Started start_by_cluster(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks);

// Why, judging by the points alone, mlk has to start the trials one by one: "mode ps has several processes",
// "workers.cpu differs from trial to trial". Empty if Jobs can run them. Throws Error{usage} for a point that
// cannot be run.
std::string why_driven(const StartRequest& request, const SubmitHooks& hooks);

// A warning for so many trials run by the cluster: the controller manager deletes ended pods beyond 12 500,
// and unread results with them. Empty for fewer.
std::string why_results_may_vanish(int trials);

// Parts of the above, for other code that starts trials.

// Trials of these points, numbered from `first_number` on, as patches of `config` (runtime_config; null for
// `run:`). The deltas also say what a Job cannot do. Throws Error{usage} for a point that cannot be run.
std::vector<TrialLine> lines_of(const StartRequest& request, const SubmitHooks& hooks,
                                const std::vector<Point>& points, int first_number,
                                const nlohmann::json& config);

// For the sweep's own objects, without an owner's uid.
RenderOptions render_options(const StartRequest& request);

// The copies of the `files:` entries that the sweep's trials mount, taken from the rendered objects.
std::vector<nlohmann::json> data_objects(const Definition& definition, const Rendered& rendered);

}  // namespace mlk::sweeps
