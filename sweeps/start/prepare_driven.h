// Creates what a driven sweep needs before its first trial.
#pragma once

#include "sweeps/start/start.h"

namespace mlk::sweeps {

// Creates the sweep's own objects; drive() starts the trials. If the cluster has run this sweep without a
// driver, the sweep needs a driver from now on. Throws the errors of submit_run().
Started prepare_driven(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks);

}  // namespace mlk::sweeps
