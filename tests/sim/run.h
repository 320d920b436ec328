// A whole simulated run: its ranks, its faults, and its end. All of it follows from the seed, or from a
// scenario.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/rank.h"
#include "tests/sim/scenario.h"

namespace mlk::sim {

struct Outcome {
  std::optional<std::string> violation;
  std::uint64_t events = 0, commits = 0, generations = 0;
  Duration time{0};  // virtual
};

using Print = std::function<void(const std::string& line)>;

// print: called for every event; may be empty.
Outcome simulate(const Scenario& scenario, const Print& print);

// How long a Job waits before it starts a process again that has ended with this code. Adds 1 to `failures`,
// unless the process was terminated.
Duration restart_pause(rt::ExitCode code, int& failures);

}  // namespace mlk::sim
