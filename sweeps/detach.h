// Giving a sweep a driver in the cluster, and what that driver reads when it starts.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/creation.h"
#include "sweeps/driver_job.h"

namespace mlk::sweeps {

// Starts the driver with this Job and input, or again when it has ended; drivers of other commands for the
// same sweep are removed then. May be cut off and repeated anywhere: at every moment there is one, or the one
// from before. Returns false when it is there already, and goes on. Throws as Creation.
bool start_driver(kube::Client& client, const std::string& name_space, const std::string& sweep,
                  nlohmann::json job, const std::string& input, const SubmitHooks& hooks);

struct DriverTask {
  DriverInput input;
  FileContents folders;  // of `files:`, as they travel with the sweep
};

// `key`: of key_of_input(). Throws Error: not_found without it, failure when it is broken.
DriverTask read_driver_task(kube::Client& client, const std::string& name_space, const std::string& sweep,
                            const std::string& key);

}  // namespace mlk::sweeps
