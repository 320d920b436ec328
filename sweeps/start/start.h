// Starts a sweep or its missing trials. A start may be cut off at any point and repeated, and never starts a
// trial twice.
#pragma once

#include <string>
#include <vector>

#include "cli/render/render.h"
#include "cli/run/change/creation.h"
#include "sweeps/objects/trials_job.h"
#include "sweeps/search/definition.h"

namespace mlk::sweeps {

struct StartRequest {
  const Definition& definition;
  const FileContext& file_context;  // of the experiment file
  const Templates& templates;
  std::string name_space;
  std::string version;  // of mlk
  bool local = false;
  bool detached = false;      // a Job in the cluster will drive the sweep
  bool retry_failed = false;  // starts failed trials again
  bool dry_run = false;       // the server checks all objects, and stores none of them
  std::size_t most_points_bytes = sweeps::most_points_bytes;  // of the points of one Job
};

struct Started {
  std::string sweep{};
  int trials = 0;        // trials of the sweep, including existing trials
  int started = 0;       // trials that this call has started, or has left to the driver to start
  int jobs = 0;          // Jobs that this call has made
  int retried = 0;       // those of the started trials that had failed before
  std::string driven{};  // why drive() has to continue the sweep; empty if the cluster runs it
};

// Starts a trial for each point, as indexes of Jobs. why_driven() must be empty for the points. If the state
// of the sweep on the cluster requires a driver, only prepares the sweep for a driver (drive.h). Other
// processes may add trials at the same time, and each trial still gets its own number. If the server refuses
// an object, removes everything that this call has created. Throws Error{usage} for a point that cannot be
// run, and the errors of submit_run().
Started start_by_cluster(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks);

// Why the points alone require that mlk starts each trial as a run: "mode ps has several processes",
// "workers.cpu differs from trial to trial". Empty if the trials can be indexes of Jobs. Throws Error{usage}
// for a point that cannot be run.
std::string why_driven(const StartRequest& request, const SubmitHooks& hooks);

// A warning if a sweep without a driver has more than 12 500 trials: the controller manager keeps only 12 500
// ended pods, and unread results in other pods are lost. Empty for up to 12 500 trials.
std::string why_results_may_vanish(int trials);

// Parts of start_by_cluster(), for other code that starts trials.

// The trials of these points, numbered from `first_number` on, as patches of `config` (runtime_config; null
// for `run:`). The delta of a trial also says whether a Job cannot run the trial. Throws Error{usage} for a
// point that cannot be run.
std::vector<TrialLine> lines_of(const StartRequest& request, const SubmitHooks& hooks,
                                const std::vector<Point>& points, int first_number,
                                const nlohmann::json& config);

// The options for rendering the sweep's own objects, without the uid of an owner.
RenderOptions render_options(const StartRequest& request);

// The rendered objects with the files and the code that all trials of the sweep use.
std::vector<nlohmann::json> data_objects(const Definition& definition, const Rendered& rendered);

}  // namespace mlk::sweeps
