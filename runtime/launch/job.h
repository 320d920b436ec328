// The arguments that run() (runtime/run.h) passes to every mode of the runtime.
#pragma once

#include "runtime/base/log.h"
#include "runtime/base/stop_signal.h"
#include "runtime/launch/config.h"
#include "runtime/launch/launch_env.h"
#include "runtime/metrics/reporter.h"

namespace mlk::rt {

// run() owns all members, and keeps them alive while the mode runs. A mode that returns ExitCode::trained has
// called reporter.finish(true, "") or finish_with(). A mode that returns another code has called finish()
// with a reason. If the mode throws an exception, run() calls finish() with the message of the exception.
struct Job {
  const LaunchEnv& env;
  const Config& config;
  StopSignal& stop;
  Reporter& reporter;
  const Log& log;
};

}  // namespace mlk::rt
