// The sum of a vector over the members of a generation: around a ring, or by each to all.
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

// Every member ends with the same bits: each element is added up by one member, or by all in the order of the
// ranks. Frames carry generation and step, so what is left of an earlier attempt never gets into a sum.
class Ring {
 public:
  // floats: the most that a vector has. As much of frames that come early is kept, or 4 MiB, which is more
  // than the others can be ahead: nobody ends a sum without this member.
  Ring(Transport& transport, std::size_t floats);

  struct Group {
    std::uint64_t generation = 0, step = 0;
    std::vector<std::uint32_t> ranks;  // of all members, ascending
    std::size_t index = 0;             // own, in ranks
  };
  // Waits for an event for at most `time`, and handles it unless it is a frame of a sum, which it returns.
  // False: give the sum up.
  using Pump = std::function<bool(std::optional<Event>& event, Milliseconds time)>;

  // data: the own summand, becomes the sum. False if given up: data is then spoilt, and nothing writes to it
  // any more.
  bool sum(std::span<float> data, const Group& group, const Pump& pump);

  // The same for a vector that is still being computed, in another thread: all members have the same
  // `buckets`, at most `most_buckets`. ready(): of how many the summand is there, never less than before;
  // asked again whenever the pump has returned.
  using Ready = std::function<std::size_t()>;
  bool sum(std::span<float> data, std::span<const Bucket> buckets, const Ready& ready, const Group& group,
           const Pump& pump);

  // A frame of a sum that came outside of sum(): a member that is faster. Kept for the sum it belongs to.
  void keep(Event&& event);
  // Drops the frames of this rank that are kept.
  void forget_from(std::uint32_t rank);

 private:
  // Of all members: up to here latency counts, not bytes.
  static constexpr std::size_t direct_floats = 32 * 1024;

  bool sum_directly(std::span<float> data, const Group& group, const Pump& pump);
  bool sum_around(std::span<float> data, std::span<const Bucket> buckets, const Ready& ready,
                  const Group& group, const Pump& pump);
  bool send(const Group& group, std::uint32_t to, std::uint32_t key, std::span<const float> values,
            std::optional<std::uint32_t> checksum = {});
  void expect(const Group& group, std::uint32_t from, std::uint32_t key, std::span<float> into,
              ReceiveMode how);
  // A frame of this sum whose values are in their place, or added there. False: give up.
  struct Arrival {
    std::uint32_t from = 0, key = 0;
    std::optional<std::uint32_t> checksum = {};  // of what is there now, where it is known
  };
  bool next(const Group& group, const Pump& pump, Milliseconds time, std::optional<Arrival>& arrival);
  std::optional<Arrival> take_early(const Group& group);
  using Moment = std::pair<std::uint64_t, std::uint64_t>;  // generation, step
  void forget_before(const Moment& moment);
  template <typename Which>
  void forget(Which which);
  void put_into(std::span<const std::byte> bytes, std::span<float> into, ReceiveMode how);

  struct Target {
    std::span<float> into;
    ReceiveMode how = ReceiveMode::replace;
  };
  using FrameKey =
      std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;  // generation, step, from, key

  Transport& transport_;
  const std::unique_ptr<kernels::Ops> ops_;  // its own: another thread computes meanwhile
  const std::size_t most_early_bytes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Target> expected_;  // (from, key)
  // Frames of an earlier (generation, step) are dropped as late.
  Moment now_;
  std::map<FrameKey, Bytes> early_;
  std::size_t early_bytes_ = 0;
  std::vector<float> scratch_;
};

}  // namespace mlk::rt
