// What every mode of the runtime is handed by main.
#pragma once

#include "runtime/base/log.h"
#include "runtime/base/stop_signal.h"
#include "runtime/launch/config.h"
#include "runtime/launch/launch_env.h"
#include "runtime/metrics/reporter.h"

namespace mlk::rt {

// All owned by main, and alive as long as the mode runs. main calls reporter.finish() with the message of a
// Failure; a mode calls it itself for what it returns: finish(true, "") with ExitCode::trained, else with a
// reason.
struct Job {
  const LaunchEnv& env;
  const Config& config;
  StopSignal& stop;
  Reporter& reporter;
  const Log& log;
};

}  // namespace mlk::rt
