// What is to happen in a simulated run: drawn from a seed, or read from a file.
//
// A scenario is text, a line for each thing, `#` begins a comment:
//   seed 7             of everything that is not written down: times of messages, of steps
//   ranks 3            also: minimum, seeds, steps, checkpoint_every, disk (0 or 1), frozen_are_lost (0 or 1)
//   patience 120       also: late; seconds
//   compute 50         also: transfer, write, way (the longest of a message); milliseconds
//   drift 1 200        the clock of rank 1 is faster by 200 parts in a million
//   at 4.5 kill 1      seconds after the start; also: lose_host R, freeze R, thaw R, cut FROM TO, heal FROM
//   TO,
//                      disk_full 0 or 1, disk_slow FACTOR, start R
// A process that ends in another way than trained is started again by its Job after 10, 20, 40, 40... s,
// unless `never R` says that it never is. After the last line of `at` all processes that run can reach each
// other.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/rank.h"

namespace mlk::sim {

// scenario.cpp has the names of the kinds in this order, draws them and reads them. In run.cpp happen() does
// them, and calm() takes back those that last.
struct Fault {
  enum class Kind { start, kill, lose_host, freeze, thaw, cut, heal, disk_full, disk_slow };
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
};

// ranks: 0 leaves their number to the seed.
Scenario draw(std::uint64_t seed, std::uint32_t ranks);

// Throws std::runtime_error that names the line.
Scenario parse_scenario(const std::string& text);
std::string to_text(const Scenario& scenario);

}  // namespace mlk::sim
