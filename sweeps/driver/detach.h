// Starts the driver of a sweep in the cluster. The driver then reads its input with read_driver_task().
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/run/change/creation.h"
#include "sweeps/driver/driver_job.h"

namespace mlk::sweeps {

// Starts the driver with this Job and input, or starts it again if it has ended. Then removes drivers of
// other commands for the same sweep; such a driver is removed only when the new driver exists. If a call is
// cut off at any point, repeating the call completes its work. Returns false if the driver existed already
// and had not ended. Throws the errors of Creation.
bool start_driver(kube::Client& client, const std::string& name_space, const std::string& sweep,
                  nlohmann::json job, const std::string& input, const SubmitHooks& hooks);

struct DriverTask {
  DriverInput input;
  // The files that travel with the sweep, and its code, but without the bytes of the code.
  FileContents files;
};

// `key`: the result of key_of_input(). Throws Error: not_found if the input does not exist, failure if it is
// damaged.
DriverTask read_driver_task(kube::Client& client, const std::string& name_space, const std::string& sweep,
                            const std::string& key);

}  // namespace mlk::sweeps
