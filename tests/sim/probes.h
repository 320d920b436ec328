// In how many runs each probe of the code (runtime/base/code_probe.h) was passed.
#pragma once

namespace mlk::sim {

// Call before the first run.
void count_probes();
// Probes passed from here on are those of another run.
void next_run();
// A line for each probe: "probe NAME RUNS". The step `sim` of tests/run reads them.
void print_probes();

}  // namespace mlk::sim
