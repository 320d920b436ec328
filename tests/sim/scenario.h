// The faults and settings of a simulated run: drawn from a seed, or read from a file.
//
// A scenario is text with one line per item; `#` begins a comment:
//
// - `seed 7`: determines everything that the text leaves open, such as times of messages and of steps
// - `ranks 3`; also minimum, seeds, steps, checkpoint_every; disk, devices, overlaps, frozen_are_lost
//   (0 or 1)
// - `patience 120`; also late: seconds
// - `compute 50`; also transfer, write, way (the longest delay of a message): milliseconds
// - `drift 1 200`: the clock of rank 1 is faster by 200 parts in a million
// - `never 2`: the Job of rank 2 does not start it again
// - `apart 0 1`: these two ranks never reach each other
// - `passes allreduce.proposed`: the run must pass this probe (PROTOCOLS.md). So a scenario fails when the
//   code has changed and the scenario no longer shows what it was written for
// - `at_probes 9 20`: faults at probes (probes.h), in the first 20 seconds, determined by the number 9
// - `at 4.5 kill 1`: seconds after the start; also lose_host R, freeze R, thaw R, terminate R, start R,
//   hang R (a sum of it), cut FROM TO, heal FROM TO, disk_full 0 or 1, disk_slow FACTOR,
//   transfer_slow FACTOR, lose_disk
// - `at 4.5 isolate 1` cuts all connections of a process. 10 s later its Job starts another process beside
//   it. `reconnect R` heals all connections of the process. Seeds do not draw `isolate` and `reconnect`,
//   since the Jobs of allreduce workers replace only pods that have ended
//
// A process that does not end as trained is started again by its Job after 10, 20, 40, 40... s. A process
// that was terminated (SIGTERM, and SIGKILL 30 s later) is started again after 1 s. After the last line with
// `at` all running processes can reach each other.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/probes.h"
#include "tests/sim/rank.h"

namespace mlk::sim {

// Faults of a rank come before disk_full, faults of the whole run after it. scenario.cpp has the names of the
// kinds in this order and reads them; draw.cpp draws them. In run.cpp happen() applies them, and calm()
// reverts those that last.
struct Fault {
  enum class Kind {
    start,
    kill,
    lose_host,
    freeze,
    thaw,
    terminate,
    isolate,
    reconnect,
    hang,
    cut,
    heal,
    disk_full,
    disk_slow,
    transfer_slow,
    lose_disk
  };
  Duration at{0};
  Kind kind = Kind::kill;
  std::uint32_t first = 0, second = 0;
};

struct Scenario {
  std::uint64_t seed = 0;
  RunSettings settings;
  bool disk = true;
  std::vector<std::int64_t> drift_ppm;
  std::vector<Fault> faults;
  std::set<std::uint32_t> never;  // ranks that are not started again
  std::optional<std::pair<std::uint32_t, std::uint32_t>> apart;
  ProbeFaults at_probes;
  std::set<std::string> passes;  // probes that the run must pass
};

// Defined in draw.cpp. ranks: 0: the seed determines their number.
Scenario draw(std::uint64_t seed, std::uint32_t ranks);
// The faults after `rank` has passed a probe; their times count from that moment.
std::vector<Fault> draw_at_probe(std::uint64_t seed, const Scenario& scenario, std::uint32_t rank);

// Throws std::runtime_error that names the line.
Scenario parse_scenario(const std::string& text);
std::string to_text(const Scenario& scenario);
std::string to_text(const Fault& fault);

}  // namespace mlk::sim
