// The sum over the members of a generation by their devices (NCCL), in place of the sum by the hosts
// (ring.h).
//
// The members agree on the use of their devices by means of a few floats that each sum by the hosts contains
// for this purpose. In the first sum of a generation each member reports whether its device can take part,
// and the first member sends the id of the group to join. While the members join, training continues with
// sums by the hosts, and in each sum the members report whether they are ready. All members get the same sum,
// so they all change to the devices at the same step, or all stay with the hosts. When a generation ends, its
// group ends, too.
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
  // collectives: those of the device that computes, or null if it has none. largest_part: the most floats
  // that add() gets. `collectives` and `log` must outlive this object.
  DeviceSum(kernels::Collectives* collectives, std::size_t largest_part, const Log& log);

  // The number of floats of a member's report in each sum by the hosts.
  static constexpr std::size_t talk_floats = 4 + (sizeof(kernels::GroupId) + 2) / 3;

  // A generation begins, with this process as the index-th of its members. An earlier group is dropped.
  void begin(std::size_t members, std::size_t index);
  // write_report() writes this member's report for a sum by the hosts, in talk_floats floats. read_reports()
  // reads the sum of the reports of all members. The caller calls read_reports() after each such sum.
  void write_report(std::span<float> talk);
  void read_reports(std::span<const float> sum, SteadyTime now);
  // Whether the devices compute the sums from now on.
  bool is_in_use() const { return phase_ == Phase::in_use; }

  // Begins to sum this part of the vector over all members. Only the thread that computes calls it.
  void add(std::span<float> part) { group_->sum(part); }

  // The functions below are for the thread that waits for the parts. done: all sums that were begun are done.
  // stands_still: no sum has finished for a while. The reason may be harmless: another member may still
  // compute.
  enum class Progress { under_way, stands_still, done, failed };
  Progress progress(SteadyTime now);
  // The bytes that the sums moved over the network or the GPU links since the last call, and how long the
  // sums took.
  BusTraffic take_traffic();
  // Abandons the group. With `hangs`, or if the group has failed, writes a log line. After three such groups
  // this process joins no more groups. A group that has made 1000 sums resets this count. Returns false if
  // the device may still write to the parts.
  [[nodiscard]] bool give_up(bool hangs);

 private:
  enum class Phase { off, offers, joins, in_use };

  bool can() const;

  const Log& log_;
  kernels::Collectives* const collectives_;
  const Milliseconds patience_;  // after this time without a finished sum, progress() returns stands_still
  Phase phase_ = Phase::off;
  std::size_t members_ = 1, index_ = 0;
  std::unique_ptr<kernels::Communicator> group_;
  std::optional<SteadyTime> joins_since_;
  int faults_ = 0;
  std::size_t sums_done_ = 0;
  std::optional<SteadyTime> still_since_;
  kernels::Communicator::Traffic told_;  // the group's traffic at the last take_traffic()
};

}  // namespace mlk::rt
