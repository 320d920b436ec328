// mlk sweep --detach: a sweep gets a driver in the cluster, and this machine may be switched off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/creation.h"
#include "cli/run/prepare.h"
#include "sweeps/start.h"

namespace CLI {
class App;
}

namespace mlk {

struct Session;

struct DetachOptions {
  bool detach = false;
  bool create_rbac = false;
  std::string image;  // of the driver; empty: that of the experiment
};

void add_detach_options(CLI::App& command, DetachOptions& options);

// What the sweep is made of, as it was typed.
struct SweepSource {
  const ExperimentFile& file;
  const PrepareOptions& prepared;
  const std::vector<std::string>& parameters;
};

// The driver's Job without its owner, and what it is to read.
struct Driver {
  nlohmann::json job;
  std::string input;
};

// Makes the driver's objects and asks the cluster for all that could refuse them, so that nothing is created
// that would have no driver. Without the ServiceAccount and its Role: creates them with --create-rbac, else
// prints them for an administrator. Throws Error, then cluster.
Driver prepare_driver(Session& session, kube::Client& client, const sweeps::StartRequest& request,
                      const SweepSource& source, const DetachOptions& options);

// Once the sweep is there. Says how it goes on.
void detach_sweep(Session& session, kube::Client& client, const Driver& driver,
                  const sweeps::Started& started, const SubmitHooks& hooks);

}  // namespace mlk
