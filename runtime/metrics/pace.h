// Who is slower than the others. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace mlk::rt {

// Keeps for each rank a mean of its newest steps, waiting for others left out: in a run in step those who
// wait take as long as the one who is waited for. The first step of a rank, which finds its caches cold, does
// not count.
class Pace {
 public:
  // seconds: of the rank's own part of a step. Nothing for what is not positive.
  void add(std::uint32_t rank, double seconds);
  void leave(std::uint32_t rank) { means_.erase(rank); }

  // The slowest rank, if its steps take at least half as long again as the median: of an even number the
  // shorter one, so that of two the slower can be named.
  std::optional<std::uint32_t> slowest() const;

 private:
  struct Mean {
    double seconds = 0;
    std::uint64_t steps = 0;  // with the first
  };
  std::map<std::uint32_t, Mean> means_;
};

}  // namespace mlk::rt
