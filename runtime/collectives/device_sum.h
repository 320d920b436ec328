// The sum over the members of a generation that their devices make among themselves (NCCL), in place of the
// one that goes through the hosts (ring.h).
//
// The members agree on it in the first floats of the sums by the hosts. In the first sum of a generation each
// says whether its device can, and the first member gives what is needed to join a group. While they join,
// training goes on by the hosts; in each sum they say whether they are ready. All see the same sum, so all
// change to the devices with the same step, or none. A generation that ends takes its group with it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "kernels/communicator.h"
#include "runtime/base/log.h"
#include "runtime/metrics/telemetry.h"
#include "runtime/transport/event.h"

namespace mlk::rt {

class DeviceSum {
 public:
  // collectives: of the device that computes; null: it has none. largest_part: floats, of add(). The
  // references must outlive this object.
  DeviceSum(kernels::Collectives* collectives, std::size_t largest_part, const Log& log);

  // What the members say is in so many floats of each sum by the hosts.
  static constexpr std::size_t talk_floats = 4 + (sizeof(kernels::GroupId) + 2) / 3;

  // A generation begins, with this process as the index-th of its members. An earlier group is given up.
  void begin(std::size_t members, std::size_t index);
  // Of talk_floats: what this member says in a sum by the hosts, and the sum of what all have said. To be
  // called for each such sum, once it is done.
  void say(std::span<float> talk);
  void hear(std::span<const float> sum, SteadyTime now);
  // From now on the devices add up.
  bool is_in_use() const { return phase_ == Phase::in_use; }

  // Begins to add up a part of the step, for the thread that computes.
  void add(std::span<float> part) { group_->sum(part); }

  // The other functions are for the thread that waits for the parts. done: all that were begun.
  // stands_still: nothing has been done for a while. That need not be a fault: another member may compute.
  enum class Progress { under_way, stands_still, done, failed };
  Progress progress(SteadyTime now);
  // Since the last call: what the sums have moved over the network or the links between the GPUs, and how
  // long that took.
  BusTraffic take_traffic();
  // Gives the group up. With `hangs`, or if it has failed, the log says so, and after three such groups in a
  // row this process takes part in none. False: the device may still write to the parts.
  [[nodiscard]] bool give_up(bool hangs);

 private:
  enum class Phase { off, offers, joins, in_use };

  bool can() const;

  const Log& log_;
  kernels::Collectives* const collectives_;
  const Milliseconds patience_;  // with a part
  Phase phase_ = Phase::off;
  std::size_t members_ = 1, index_ = 0;
  std::unique_ptr<kernels::Communicator> group_;
  std::optional<SteadyTime> joins_since_;
  int faults_ = 0;
  std::size_t sums_done_ = 0;
  std::optional<SteadyTime> still_since_;
  kernels::Communicator::Traffic told_;  // of the group, by take_traffic()
};

}  // namespace mlk::rt
