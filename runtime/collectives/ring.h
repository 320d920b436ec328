// Sums a vector over the members of a generation: around a ring, or each member sends its vector to all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "runtime/collectives/buckets.h"
#include "runtime/transport/transport.h"

namespace mlk::rt {

// All members end with the same bits: either one member computes the sum of an element, or all members add in
// the order of the ranks. Each frame has its generation and step, so no sum contains a frame of an earlier
// attempt.
class Ring {
 public:
  // floats: the length of the longest vector. The ring stores at most as many bytes of early frames as that
  // vector has, or 4 MiB if this is more. Other members do not send more early frames, since no member
  // completes a sum without this member.
  Ring(Transport& transport, std::size_t floats);

  struct Group {
    std::uint64_t generation = 0, step = 0;
    std::vector<std::uint32_t> ranks;  // of all members, ascending
    std::size_t index = 0;             // this member's place in ranks
  };
  // Waits for an event for at most `time`. Handles the event unless it is a frame of a sum. Leaves such a
  // frame in `event`. Returns false if the sum must be abandoned.
  using Pump = std::function<bool(std::optional<Event>& event, Milliseconds time)>;

  // data: this member's summand, which becomes the sum. Another thread may still be computing it. Returns
  // false if the sum was abandoned. Then data is spoilt, and the transport no longer writes to it. All
  // members have the same `buckets`, at most `most_buckets`. ready() returns how many buckets have a
  // computed summand. This number never decreases. sum() calls ready() again after each return of the pump.
  using Ready = std::function<std::size_t()>;
  bool sum(std::span<float> data, std::span<const Bucket> buckets, const Ready& ready, const Group& group,
           const Pump& pump);

  // Stores a frame that came outside of sum(), from a faster member, for the sum to which it belongs.
  void store_early(Event&& event);
  // Drops the stored frames of this rank.
  void forget_from(std::uint32_t rank);

 private:
  // If the vectors of all members together have at most this many floats, latency matters more than the
  // number of bytes sent.
  static constexpr std::size_t direct_floats = 32 * 1024;

  bool sum_directly(std::span<float> data, const Group& group, const Pump& pump);
  bool sum_around(std::span<float> data, std::span<const Bucket> buckets, const Ready& ready,
                  const Group& group, const Pump& pump);
  bool send(const Group& group, std::uint32_t to, std::uint32_t key, std::span<const float> values,
            std::optional<std::uint32_t> checksum = {});
  void expect(const Group& group, std::uint32_t from, std::uint32_t key, std::span<float> into,
              ReceiveMode how);
  // A frame of this sum whose values are stored at their place, or added there. next() returns false if the
  // sum must be abandoned.
  struct Arrival {
    std::uint32_t from = 0, key = 0;
    std::optional<std::uint32_t> checksum = {};  // of the resulting values, if it is known
  };
  bool next(const Group& group, const Pump& pump, Milliseconds time, std::optional<Arrival>& arrival);
  std::optional<Arrival> pop_early(const Group& group);
  using Moment = std::pair<std::uint64_t, std::uint64_t>;  // generation, step
  void forget_before(const Moment& moment);
  template <typename Which>
  void forget(Which which);

  struct Target {
    std::span<float> into;
    ReceiveMode how = ReceiveMode::replace;
  };
  using FrameKey =
      std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;  // generation, step, from, key

  Transport& transport_;
  const std::unique_ptr<kernels::Ops> ops_;  // own Ops, since another thread computes meanwhile
  const std::size_t most_early_bytes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Target> expected_;  // (from, key)
  // The sum under way; frames of an earlier sum are dropped as late.
  Moment now_;
  std::map<FrameKey, Bytes> early_;
  std::size_t early_bytes_ = 0;
  std::vector<float> scratch_;
};

}  // namespace mlk::rt
