// Waits for the end of a sweep, or drives the sweep to its end. `mlk sweep`, `mlk sweep --wait`,
// `mlk wait` and `mlk drive` use this file.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/wait/await_run.h"
#include "sweeps/start/start.h"
#include "sweeps/trials/observe.h"

namespace mlk {

// Blocks until the sweep has ended, is stopped or cannot start. Shows the progress: a changing line on a
// terminal, otherwise a line for each trial that ends. If the user interrupts mlk, the sweep continues, and a
// message names the command that waits again. Throws Error, also if the sweep needs a driver but has no
// driver and no running trial.
ExitCode await_sweep(Session& session, kube::Client& client, const std::string& sweep,
                     std::optional<std::chrono::seconds> timeout,
                     std::optional<std::chrono::seconds> start_timeout = {});

// The error for a sweep that needs a driver but has no driver.
Error nobody_drives_error(const sweeps::SweepStatus& status);

// Waits like await_sweep(), and meanwhile starts the trials of the sweep, as many at a time as the sweep
// allows. If the user interrupts mlk, the running trials continue, but no trial is started before the user
// types the command again.
ExitCode drive_sweep(Session& session, kube::Client& client, const sweeps::StartRequest& request,
                     std::optional<std::chrono::seconds> timeout);

}  // namespace mlk
