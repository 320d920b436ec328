// The probes of the code (runtime/base/code_probe.h): in how many runs each was passed, and faults that
// happen where one is passed.
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
// Probes passed from here on are those of another run.
void next_run();
// The names of those that were passed since the last call.
std::vector<std::string_view> take_passed_probes();
// A line for each probe: "probe NAME RUNS". The step `sim` of tests/run reads them.
void print_probes();

// Which passages of which probes bring a fault: what is drawn at moments of the protocol finds what times
// drawn in advance seldom meet (the idea of FoundationDB's BUGGIFY).
struct ProbeFaults {
  std::uint64_t seed = 0;  // 0: no such faults
  Duration until{0};       // none later than this after the start of the run
};

class ProbeFaultDraw {
 public:
  explicit ProbeFaultDraw(ProbeFaults faults) : faults_(faults) {}

  // now: since the start of the run. A seed of what is to happen, or nothing.
  std::optional<std::uint64_t> passed(std::string_view probe, Duration now);

 private:
  const ProbeFaults faults_;
  std::map<std::string, std::uint64_t, std::less<>> passages_;
};

}  // namespace mlk::sim
