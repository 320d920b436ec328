// Finds the rank that is slower than the others. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace mlk::rt {

// Keeps for each rank the mean duration of its newest steps. Waiting is excluded, because in sync mode every
// rank takes as long as the straggler. The first step of a rank is left out, because its caches are cold.
class Pace {
 public:
  // seconds: the duration of the rank's own part of a step. A duration that is not positive is ignored.
  void add(std::uint32_t rank, double seconds);
  void leave(std::uint32_t rank) { means_.erase(rank); }

  // The slowest rank, if its steps take at least one and a half times the median. For an even number of ranks
  // the lower median is used, so that the slower of two ranks can be named.
  std::optional<std::uint32_t> slowest() const;

 private:
  struct Mean {
    double seconds = 0;
    std::uint64_t steps = 0;  // the first one included
  };
  std::map<std::uint32_t, Mean> means_;
};

}  // namespace mlk::rt
