// The probes of the code (runtime/base/code_probe.h): the number of runs that passed each probe, and faults
// that happen when a probe is passed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/clock.h"

namespace mlk::sim {

// Call before the first run.
void listen_to_probes();
// Probes passed from here on belong to the next run.
void next_run();
// Whether the present run has passed this probe.
bool has_passed(std::string_view probe);
// The names of the probes passed since the last call.
std::vector<std::string_view> take_passed_probes();
// Prints a line for each probe: "probe NAME RUNS". The step `sim` of tests/run reads these lines.
void print_probes();

// Decides which passages of which probes bring a fault. Faults at moments of the protocol find cases that
// faults at random times seldom meet (the idea of FoundationDB's BUGGIFY).
struct ProbeFaults {
  std::uint64_t seed = 0;  // 0: no such faults
  Duration until{0};       // the last fault comes at most so long after the start of the run
};

class ProbeFaultDraw {
 public:
  explicit ProbeFaultDraw(ProbeFaults faults) : faults_(faults) {}

  // now: the time since the start of the run. Returns a seed for faults, or nothing.
  std::optional<std::uint64_t> passed(std::string_view probe, Duration now);

 private:
  const ProbeFaults faults_;
  std::map<std::string, std::uint64_t, std::less<>> passages_;
};

}  // namespace mlk::sim
