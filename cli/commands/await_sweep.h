// Waiting for the end of a sweep, or driving it to its end: the same in sweep, sweep --wait and wait.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/commands/await_run.h"
#include "sweeps/observe.h"
#include "sweeps/start.h"

namespace mlk {

// Blocks until the sweep has ended, is stopped or cannot start, and shows how it goes on: a line that changes
// on a terminal, else a line for each trial that ends. Interrupted, it leaves the sweep running and says how
// to come back. Throws Error, also when nothing runs of a sweep that has to be driven and that nobody drives.
ExitCode await_sweep(Session& session, kube::Client& client, const std::string& sweep,
                     std::optional<std::chrono::seconds> timeout,
                     std::optional<std::chrono::seconds> start_timeout = {});

// What ends a wait for a sweep that nobody drives.
Error nobody_drives_error(const sweeps::SweepStatus& status);

// The same, and starts trials as others end. Interrupted, what runs goes on, and nothing more is started
// until `again` is typed.
ExitCode drive_sweep(Session& session, kube::Client& client, const sweeps::StartRequest& request,
                     std::optional<std::chrono::seconds> timeout);

}  // namespace mlk
