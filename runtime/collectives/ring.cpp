// There are two algorithms. Direct: each member sends its vector to all others, in one phase. Ring: pieces
// travel around a ring in 2(n-1) phases, and each member sends 2(n-1)/n of the bytes of the vector.
#include "runtime/collectives/ring.h"

#include <algorithm>
#include <deque>

#include "kernels/cpu/cpu_ops.h"

namespace mlk::rt {
namespace {

constexpr std::size_t least_early_bytes = std::size_t{4} << 20;
constexpr Milliseconds a_while{100};

// A bucket has one segment for each of the n members. A segment consists of pieces, and each piece is sent as
// one frame. In phase p the member with index i sends segment i - p, and gets segment i - p - 1, which it
// sends in the next phase; the numbers of segments are modulo n. The first n - 1 phases add (reduce-scatter):
// after them this member has the complete segment i + 1. The other phases pass complete segments on
// (all-gather).
class RingSchedule {
 public:
  RingSchedule(std::span<const Bucket> buckets, std::size_t members, std::size_t index)
      : buckets_(buckets), members_(members), index_(index) {}

  std::size_t phases() const { return 2 * (members_ - 1); }
  ReceiveMode mode_in(std::size_t phase) const {
    return phase < members_ - 1 ? ReceiveMode::add : ReceiveMode::replace;
  }

  // The key of a frame identifies its content: bucket, phase, number of the piece.
  static std::uint32_t key(std::size_t bucket, std::size_t phase, std::size_t number) {
    return static_cast<std::uint32_t>(bucket << 26 | phase << 12 | number);
  }
  static std::size_t phase_of(std::uint32_t key) { return key >> 12 & 0x3fff; }
  static std::uint32_t in_next_phase(std::uint32_t key) { return key + (1u << 12); }

  std::size_t pieces_sent(std::size_t bucket, std::size_t phase) const {
    const std::size_t piece = piece_floats(bucket);
    return (sent(bucket, phase).size + piece - 1) / piece;
  }
  std::size_t pieces_received(std::size_t bucket, std::size_t phase) const {
    return pieces_sent(bucket, phase + 1);
  }
  // The floats of the piece that is sent, or received, with this key.
  Bucket to_send(std::uint32_t key) const { return piece(key, phase_of(key)); }
  Bucket to_receive(std::uint32_t key) const { return piece(key, phase_of(key) + 1); }

 private:
  // Large pieces wake the receiver less often, but several must be under way at a time, and two must fit into
  // a shared lane. So a piece has 512 KiB to 1 MiB. If a segment then had more pieces than a key can
  // number, its pieces are larger.
  std::size_t piece_floats(std::size_t bucket) const {
    const std::size_t segment = buckets_[bucket].size / members_;
    return std::max(std::clamp<std::size_t>(segment / 8, 128 * 1024, 256 * 1024), segment / 4000);
  }
  Bucket sent(std::size_t bucket, std::size_t phase) const {
    const std::size_t segment = (index_ + 2 * members_ - phase) % members_, size = buckets_[bucket].size;
    const std::size_t begin = size * segment / members_, end = size * (segment + 1) / members_;
    return {buckets_[bucket].offset + begin, end - begin};
  }
  Bucket piece(std::uint32_t key, std::size_t phase) const {
    const Bucket segment = sent(key >> 26, phase);
    const std::size_t size = piece_floats(key >> 26), begin = (key & 0xfff) * size;
    return {segment.offset + begin, std::min(size, segment.size - begin)};
  }

  std::span<const Bucket> buckets_;
  std::size_t members_, index_;
};

}  // namespace

Ring::Ring(Transport& transport, std::size_t floats)
    : transport_(transport),
      ops_(kernels::make_cpu_ops()),
      most_early_bytes_(std::max(floats * sizeof(float), least_early_bytes)) {}

bool Ring::sum(std::span<float> data, std::span<const Bucket> buckets, const Ready& ready, const Group& group,
               const Pump& pump) {
  forget_before({group.generation, group.step});
  if (group.ranks.size() <= 1 && buckets.size() == 1) return true;
  expected_.clear();
  const PostedReceivesGuard guard(transport_.posted_receives());
  const bool direct = buckets.size() == 1 && data.size() * group.ranks.size() <= direct_floats;
  return direct ? sum_directly(data, group, pump) : sum_around(data, buckets, ready, group, pump);
}

void Ring::store_early(Event&& event) {
  const Header& h = event.header;
  const FrameKey key{h.generation, h.clock, event.peer.rank, h.key};
  if (h.generation > now_.first) forget_before({h.generation, 0});  // all earlier generations are over
  const bool late = std::pair(h.generation, h.clock) < now_;
  if (late || event.in_posted_buffer || early_.contains(key) ||
      early_bytes_ + event.payload.size() > most_early_bytes_) {
    return transport_.count_late();
  }
  early_bytes_ += event.payload.size();
  early_.emplace(key, std::move(event.payload));
}

template <typename Which>
void Ring::forget(Which which) {
  std::erase_if(early_, [&](const auto& frame) {
    if (!which(frame.first)) return false;
    early_bytes_ -= frame.second.size();
    transport_.count_late();
    return true;
  });
}

void Ring::forget_before(const Moment& moment) {
  now_ = moment;
  forget([&](const FrameKey& key) { return std::pair(std::get<0>(key), std::get<1>(key)) < moment; });
}

void Ring::forget_from(std::uint32_t rank) {
  forget([rank](const FrameKey& key) { return std::get<2>(key) == rank; });
}

bool Ring::send(const Group& group, std::uint32_t to, std::uint32_t key, std::span<const float> values,
                std::optional<std::uint32_t> checksum) {
  const Header header{.type = MessageType::reduce,
                      .data_type = DataType::float32,
                      .key = key,
                      .generation = group.generation,
                      .clock = group.step};
  return transport_.send({Role::worker, to}, header, std::as_bytes(values), WhenFull::wait, checksum);
}

void Ring::expect(const Group& group, std::uint32_t from, std::uint32_t key, std::span<float> into,
                  ReceiveMode how) {
  expected_[{from, key}] = {into, how};
  if (early_.contains({group.generation, group.step, from, key})) return;
  transport_.posted_receives().post(
      {{Role::worker, from}, MessageType::reduce, group.generation, group.step, key},
      std::as_writable_bytes(into), how);
}

// Uses a stored frame that this member expects now, and returns its sender and key. The other stored frames
// belong to later sums, or to buckets that have not begun here.
std::optional<Ring::Arrival> Ring::pop_early(const Group& group) {
  const auto end = early_.upper_bound({group.generation, group.step, ~0u, ~0u});
  for (auto found = early_.lower_bound({group.generation, group.step, 0, 0}); found != end;) {
    const Arrival arrival{std::get<2>(found->first), std::get<3>(found->first)};
    const auto target = expected_.find({arrival.from, arrival.key});
    if (target == expected_.end()) {
      ++found;
      continue;
    }
    const Bytes bytes = std::move(found->second);
    early_bytes_ -= bytes.size();
    found = early_.erase(found);
    if (target->second.into.size_bytes() != bytes.size()) {
      transport_.count_late();
      continue;
    }
    put_into(std::as_writable_bytes(target->second.into), bytes, target->second.how, *ops_);
    expected_.erase(target);
    return arrival;
  }
  return {};
}

bool Ring::next(const Group& group, const Pump& pump, Milliseconds time, std::optional<Arrival>& arrival) {
  arrival = pop_early(group);
  if (arrival) return true;
  std::optional<Event> event;
  if (!pump(event, time)) return false;
  if (!event) return true;
  if (!event->in_posted_buffer) {
    store_early(std::move(*event));
    arrival = pop_early(group);
    return true;
  }
  // A frame in a posted buffer belongs to this sum: all buffers of earlier sums were filled or taken back.
  const Header& h = event->header;
  if (h.generation != group.generation || h.clock != group.step) return true;
  expected_.erase({event->peer.rank, h.key});
  arrival = {event->peer.rank, h.key, event->checksum};
  return true;
}

bool Ring::sum_directly(std::span<float> data, const Group& group, const Pump& pump) {
  const std::size_t members = group.ranks.size();
  scratch_.resize(data.size() * members);
  const auto summand = [&](std::size_t index) {
    return std::span(scratch_).subspan(index * data.size(), data.size());
  };
  for (std::size_t index = 0; index < members; ++index) {
    if (index != group.index) expect(group, group.ranks[index], 0, summand(index), ReceiveMode::replace);
  }
  for (std::size_t index = 0; index < members; ++index) {
    if (index != group.index && !send(group, group.ranks[index], 0, data)) return false;
  }
  std::ranges::copy(data, summand(group.index).begin());
  for (std::size_t left = members - 1; left > 0;) {
    std::optional<Arrival> arrival;
    if (!next(group, pump, a_while, arrival)) return false;
    if (arrival) --left;
  }
  // Adds the summands in the order of the ranks, so that all members get the same bits.
  std::ranges::copy(summand(0), data.begin());
  for (std::size_t index = 1; index < members; ++index) {
    put_into(std::as_writable_bytes(data), std::as_bytes(summand(index)), ReceiveMode::add, *ops_);
  }
  return true;
}

// Pieces may be received into the data itself. In the first phases they are added to the summand of this
// member. Later they replace floats that this member has sent before. Those floats have arrived at the next
// member: the complete segment, which was computed from them, is here.
bool Ring::sum_around(std::span<float> data, std::span<const Bucket> buckets, const Ready& ready,
                      const Group& group, const Pump& pump) {
  const std::size_t n = group.ranks.size();
  const RingSchedule schedule(buckets, n, group.index);
  const std::uint32_t to = group.ranks[(group.index + 1) % n], from = group.ranks[(group.index + n - 1) % n];
  const auto floats = [&](const Bucket& piece) { return data.subspan(piece.offset, piece.size); };

  std::size_t begun = 0, left = 0;
  struct Piece {
    std::uint32_t key = 0;
    std::optional<std::uint32_t> checksum = {};
  };
  std::deque<Piece> to_send;
  const auto begin_bucket = [&](std::size_t bucket) {
    for (std::size_t phase = 0; phase < schedule.phases(); ++phase) {
      for (std::size_t number = 0; number < schedule.pieces_received(bucket, phase); ++number, ++left) {
        const std::uint32_t key = RingSchedule::key(bucket, phase, number);
        expect(group, from, key, floats(schedule.to_receive(key)), schedule.mode_in(phase));
      }
    }
    if (schedule.phases() == 0) return;
    for (std::size_t number = 0; number < schedule.pieces_sent(bucket, 0); ++number)
      to_send.push_back({RingSchedule::key(bucket, 0, number)});
  };
  while (begun < buckets.size() || left > 0 || !to_send.empty()) {
    for (const std::size_t now = ready(); begun < now; ++begun) begin_bucket(begun);
    bool sent = false;
    if (!to_send.empty() && transport_.has_room({Role::worker, to})) {
      const Piece piece = to_send.front();
      to_send.pop_front();
      if (!send(group, to, piece.key, floats(schedule.to_send(piece.key)), piece.checksum)) return false;
      sent = true;
    }
    if (begun == buckets.size() && left == 0 && to_send.empty()) break;
    // After each piece that this member sends, it handles a piece that has arrived, so that both directions
    // flow.
    std::optional<Arrival> arrival;
    if (!next(group, pump, sent ? Milliseconds(0) : a_while, arrival)) return false;
    if (!arrival) continue;
    --left;
    if (RingSchedule::phase_of(arrival->key) + 1 < schedule.phases())
      to_send.push_back({RingSchedule::in_next_phase(arrival->key), arrival->checksum});
  }
  return true;
}

}  // namespace mlk::rt
