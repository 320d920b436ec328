// A whole simulated run with parameter servers: its processes, what befalls them, and its end.
#pragma once

#include "tests/sim/ps_scenario.h"
#include "tests/sim/run.h"

namespace mlk::sim {

// print: told every event; may be empty.
Outcome simulate(const PsScenario& scenario, const Print& print);

}  // namespace mlk::sim
