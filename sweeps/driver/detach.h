// Gives a sweep a driver in the cluster, and reads the input of that driver when the driver starts.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/change/creation.h"
#include "sweeps/driver/driver_job.h"

namespace mlk::sweeps {

// Starts the driver with this Job and input, or starts it again if it has ended. Then removes drivers of
// other commands for the same sweep. May be cut off and repeated anywhere: at every moment either the new or
// the earlier driver exists. Returns false if the driver exists already and has not ended. Throws as
// Creation.
bool start_driver(kube::Client& client, const std::string& name_space, const std::string& sweep,
                  nlohmann::json job, const std::string& input, const SubmitHooks& hooks);

struct DriverTask {
  DriverInput input;
  FileContents files;  // as they travel with the sweep; only the digest of the code
};

// `key`: the result of key_of_input(). Throws Error: not_found if the input does not exist, failure if it is
// damaged.
DriverTask read_driver_task(kube::Client& client, const std::string& name_space, const std::string& sweep,
                            const std::string& key);

}  // namespace mlk::sweeps
