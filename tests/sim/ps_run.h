// A whole simulated run with parameter servers: its processes, its faults, and its end.
#pragma once

#include "tests/sim/ps_scenario.h"
#include "tests/sim/run.h"

namespace mlk::sim {

// print: called for every event; may be empty.
Outcome simulate(const PsScenario& scenario, const Print& print);

}  // namespace mlk::sim
