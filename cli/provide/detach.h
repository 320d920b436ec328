// mlk sweep --detach: gives a sweep a driver in the cluster, so that this machine may be switched off.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/change/creation.h"
#include "cli/run/inputs/prepare.h"
#include "sweeps/start/start.h"

namespace CLI {
class App;
}

namespace mlk {

struct Session;

struct DetachOptions {
  bool detach = false;
  bool create_rbac = false;
  std::string image;  // of the driver; empty: $MLK_DRIVER_IMAGE, or else the image of the experiment
};

void add_detach_options(CLI::App& command, DetachOptions& options);

// What the user has typed to define the sweep.
struct SweepSource {
  const ExperimentFile& file;
  const PrepareOptions& prepared;
  const std::vector<std::string>& parameters;
};

// The Job of a driver, without its owner, and the input that the driver reads.
struct Driver {
  nlohmann::json job;
  std::string input;
};

// Makes the driver's objects. Checks the rights of the driver, and lets the cluster check the driver's Job,
// so that mlk creates no sweep whose driver cannot start. If the driver's ServiceAccount is missing or lacks
// rights, there are two cases. With --create-rbac and without --dry-run, creates the account, its Role and
// its RoleBinding. Otherwise prints all three for an administrator, and throws Error{cluster}. Also throws
// other Errors.
Driver prepare_driver(Session& session, kube::Client& client, const sweeps::StartRequest& request,
                      const SweepSource& source, const DetachOptions& options);

// Starts the driver and reports how the sweep continues; does nothing if the sweep has ended already. Call
// when the sweep exists.
void detach_sweep(Session& session, kube::Client& client, const Driver& driver,
                  const sweeps::Started& started, const SubmitHooks& hooks);

}  // namespace mlk
