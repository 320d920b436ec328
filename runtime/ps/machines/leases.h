// The coordinator of parameter servers records here which worker works on which samples. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/launch/config.h"

namespace mlk::rt {

// sync: a step has as many slices of `batch` samples as the run should have workers. A free worker takes the
// next slice, so that the remaining workers share the slices of lost ones. The step is done when all its
// slices are done. async: every slice is an update of its own. With a bound on staleness, a worker waits
// while it is ahead of the slowest worker by more steps than the bound.
class Leases {
 public:
  explicit Leases(const Config& config);

  // Starts at `step` with all leases void. position: the samples taken so far.
  void restart(std::uint64_t step, std::uint64_t position);

  struct Grant {
    std::uint64_t clock = 0;  // the step of the slice
    std::uint32_t slice = 0;
    std::uint64_t position = 0;  // of the first sample
    // own_slices: the slices done by this worker. others_slices: the fewest slices that any other worker has
    // done, but at most own_slices + 1.
    std::uint64_t own_slices = 0, others_slices = 0;
  };
  // Grants the worker its next slice. An earlier lease of the worker becomes void. Returns nothing if there
  // is no slice for the worker at the moment.
  std::optional<Grant> grant(std::uint32_t worker);

  // The worker has pushed the slice of its lease. Returns true if the step of the run has advanced. Has no
  // effect if the worker does not have this lease.
  bool done(std::uint32_t worker, std::uint64_t clock, std::uint32_t slice);

  void join(std::uint32_t worker);
  void leave(std::uint32_t worker);                          // its lease is void
  void retain_only(const std::set<std::uint32_t>& workers);  // all other workers leave

  std::uint64_t step() const { return step_; }          // updates done
  std::uint64_t position() const { return position_; }  // samples taken by these updates
  // async: the samples of slices that were granted to a worker, but were not reported as done, because the
  // worker was lost, joined again or asked again. A lost worker loses at most one batch, and a lost server 0
  // loses one batch for each worker. With sync, no samples are lost.
  std::uint64_t lost_samples() const { return lost_samples_; }
  void count_lost(std::uint64_t samples) { lost_samples_ += samples; }
  bool finished() const { return step_ >= steps_; }

 private:
  enum class Slice { open, leased, done };
  struct Worker {
    // How many slices the worker has done. A new worker starts with the number of the slowest worker.
    std::uint64_t clock = 0;
    std::optional<Grant> lease;
  };
  void release(Worker& worker);
  std::uint64_t slowest() const;
  std::uint64_t done_by_others(std::uint32_t rank) const;

  const bool sync_;
  const std::optional<int> staleness_;
  const std::uint64_t steps_, batch_;
  std::uint64_t step_ = 0, position_ = 0, next_position_ = 0;
  std::uint64_t outstanding_ = 0, lost_samples_ = 0;  // async
  std::vector<Slice> slices_;                         // sync: the slices of step_
  std::map<std::uint32_t, Worker> workers_;
};

}  // namespace mlk::rt
