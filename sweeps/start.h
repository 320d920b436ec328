// Starting a sweep, or what it lacks: may be cut off and repeated at any point, and never starts a trial
// twice.
#pragma once

#include <string>
#include <vector>

#include "cli/render/render.h"
#include "cli/run/creation.h"
#include "sweeps/definition.h"
#include "sweeps/trials_job.h"

namespace mlk::sweeps {

struct StartRequest {
  const Definition& definition;
  const Surroundings& surroundings;  // of the experiment file
  const Templates& templates;
  std::string name_space;
  std::string version;  // of mlk
  bool local = false;
  bool detached = false;                                      // a Job in the cluster will drive it
  bool retry_failed = false;                                  // trials that have failed are started again
  bool dry_run = false;                                       // checked by the server, nothing is stored
  std::size_t most_points_bytes = sweeps::most_points_bytes;  // of the points of one Job
};

struct Started {
  std::string sweep{};
  int trials = 0;        // of the sweep, with those that were there
  int started = 0;       // by this call
  int jobs = 0;          // that this call made
  int retried = 0;       // of those started, trials that had failed
  std::string driven{};  // why drive() has to go on with it; empty when the cluster does by itself
};

// A trial for each point, as indexes of Jobs: trials for which why_driven() is empty. A sweep that has to be
// driven, because of how it stands on the cluster, is prepared for that instead (drive.h). Others may add
// trials at the same time: numbers are given once. What is refused leaves nothing behind. Throws Error: usage
// for a point that cannot be run; else as submit_run().
Started start_by_cluster(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks);

// Why mlk has to start the trials one by one, by the points alone: "mode ps has several processes",
// "workers.cpu differs from trial to trial". Empty when Jobs can do them. Throws Error{usage} for a point
// that cannot be run.
std::string why_driven(const StartRequest& request, const SubmitHooks& hooks);

// How many trials may fail before the sweep ends, when it does not say: a tenth, and at least 3.
int usual_failures(std::size_t trials);

// What a sweep of so many trials that the cluster runs should be told: the controller manager deletes ended
// pods beyond 12 500, and with them what nobody has read. Empty for fewer.
std::string why_results_may_vanish(int trials);

// Parts of the above, for those who start trials.

// Trials of these points, numbered from `first_number` on, as what they change of `config` (runtime_config;
// null of `run:`). What a Job cannot do is told in the deltas. Throws Error{usage} for a point that cannot be
// run.
std::vector<TrialLine> lines_of(const StartRequest& request, const SubmitHooks& hooks,
                                const std::vector<Point>& points, int first_number,
                                const nlohmann::json& config);

// For the sweep's own objects, without an owner's uid.
RenderOptions render_options(const StartRequest& request);

// The copies of the `files:` entries that the sweep's trials mount, of what its render has made.
std::vector<nlohmann::json> data_objects(const Definition& definition, const Rendered& rendered);

}  // namespace mlk::sweeps
