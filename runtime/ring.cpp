// Two ways to add up: each sends all to all, which takes one step, or pieces travel around a ring, which
// takes 2(n-1) steps and moves 2(n-1)/n of the bytes.
#include "runtime/ring.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "kernels/vector_loops.h"

namespace mlk::rt {
namespace {

constexpr std::size_t least_early_bytes = std::size_t{4} << 20;
constexpr Milliseconds a_while{100};

void put_into(std::span<const std::byte> bytes, std::span<float> into, Landing how) {
  if (how == Landing::replace) {
    std::memcpy(into.data(), bytes.data(), bytes.size());
  } else {
    kernels::vector_loops().front().accumulate(into.size(), reinterpret_cast<const float*>(bytes.data()),
                                               into.data());
  }
}

}  // namespace

Ring::Ring(Transport& transport, std::size_t floats)
    : transport_(transport), most_early_bytes_(std::max(floats * sizeof(float), least_early_bytes)) {}

bool Ring::sum(std::span<float> data, const Place& place, const Pump& pump) {
  forget_before({place.generation, place.step});
  if (place.ranks.size() <= 1) return true;
  expected_.clear();
  const LandingsGuard guard(transport_.landings());
  const bool direct = data.size() * place.ranks.size() <= direct_floats;
  return direct ? sum_directly(data, place, pump) : sum_around(data, place, pump);
}

void Ring::keep(Event&& event) {
  const Header& h = event.header;
  const FrameKey key{h.generation, h.clock, event.peer.rank, h.key};
  if (h.generation > now_.first) forget_before({h.generation, 0});  // what came before it is over
  const bool late = std::pair(h.generation, h.clock) < now_;
  if (late || event.landed || early_.contains(key) ||
      early_bytes_ + event.payload.size() > most_early_bytes_) {
    return transport_.count_late();
  }
  early_bytes_ += event.payload.size();
  early_.emplace(key, std::move(event.payload));
}

void Ring::forget_before(const Moment& moment) {
  now_ = moment;
  const auto end = early_.lower_bound({moment.first, moment.second, 0, 0});
  for (auto it = early_.begin(); it != end; it = early_.erase(it)) {
    early_bytes_ -= it->second.size();
    transport_.count_late();
  }
}

bool Ring::send(const Place& place, std::uint32_t to, std::uint32_t key, std::span<const float> values) {
  Header header;
  header.type = MessageType::reduce;
  header.data_type = DataType::float32;
  header.generation = place.generation;
  header.clock = place.step;
  header.key = key;
  return transport_.send({Role::worker, to}, header, std::as_bytes(values));
}

void Ring::expect(const Place& place, std::uint32_t from, std::uint32_t key, std::span<float> into,
                  Landing how) {
  expected_[{from, key}] = {into, how};
  if (early_.contains({place.generation, place.step, from, key})) return;
  transport_.landings().expect({{Role::worker, from}, MessageType::reduce, place.generation, place.step, key},
                               std::as_writable_bytes(into), how);
}

std::optional<Ring::Arrival> Ring::take_early(const Place& place) {
  const auto end = early_.upper_bound({place.generation, place.step, ~0u, ~0u});
  for (auto found = early_.lower_bound({place.generation, place.step, 0, 0}); found != end;) {
    const Arrival arrival{std::get<2>(found->first), std::get<3>(found->first)};
    const Bytes bytes = std::move(found->second);
    early_bytes_ -= bytes.size();
    found = early_.erase(found);
    const auto target = expected_.find({arrival.from, arrival.key});
    if (target == expected_.end() || target->second.into.size_bytes() != bytes.size()) {
      transport_.count_late();
      continue;
    }
    put_into(bytes, target->second.into, target->second.how);
    expected_.erase(target);
    return arrival;
  }
  return {};
}

bool Ring::next(const Place& place, const Pump& pump, Milliseconds time, std::optional<Arrival>& arrival) {
  arrival = take_early(place);
  if (arrival) return true;
  std::optional<Event> event;
  if (!pump(event, time)) return false;
  if (!event) return true;
  if (!event->landed) {
    keep(std::move(*event));
    arrival = take_early(place);
    return true;
  }
  // Landed frames are of this sum: an earlier sum's buffers were all filled or taken back.
  const Header& h = event->header;
  if (h.generation != place.generation || h.clock != place.step) return true;
  expected_.erase({event->peer.rank, h.key});
  arrival = {event->peer.rank, h.key};
  return true;
}

bool Ring::sum_directly(std::span<float> data, const Place& place, const Pump& pump) {
  const std::size_t members = place.ranks.size();
  scratch_.resize(data.size() * members);
  const auto summand = [&](std::size_t index) {
    return std::span(scratch_).subspan(index * data.size(), data.size());
  };
  for (std::size_t index = 0; index < members; ++index) {
    if (index != place.index) expect(place, place.ranks[index], 0, summand(index), Landing::replace);
  }
  for (std::size_t index = 0; index < members; ++index) {
    if (index != place.index && !send(place, place.ranks[index], 0, data)) return false;
  }
  std::ranges::copy(data, summand(place.index).begin());
  for (std::size_t left = members - 1; left > 0;) {
    std::optional<Arrival> arrival;
    if (!next(place, pump, a_while, arrival)) return false;
    if (arrival) --left;
  }
  // In the order of the ranks, so that all get the same bits.
  std::ranges::copy(summand(0), data.begin());
  for (std::size_t index = 1; index < members; ++index) {
    put_into(std::as_bytes(summand(index)), data, Landing::add);
  }
  return true;
}

// The vector is cut into as many segments as there are members. In phase p a member sends segment index - p
// and gets index - p - 1, which it sends on in the next phase. In the first n - 1 phases what comes is added,
// so that after them segment index + 1 is complete; in the rest complete segments go around.
bool Ring::sum_around(std::span<float> data, const Place& place, const Pump& pump) {
  const std::size_t n = place.ranks.size();
  const std::size_t phases = 2 * (n - 1);
  const std::uint32_t to = place.ranks[(place.index + 1) % n], from = place.ranks[(place.index + n - 1) % n];
  const auto segment = [&](std::size_t number) {
    const std::size_t begin = data.size() * number / n, end = data.size() * (number + 1) / n;
    return Piece{begin, end - begin};
  };
  const auto sent_in = [&](std::size_t phase) { return segment((place.index + 2 * n - phase) % n); };
  const auto pieces_of = [](const Piece& s) { return (s.size + piece_floats - 1) / piece_floats; };
  const auto key_of = [](std::size_t phase, std::size_t number) {
    return static_cast<std::uint32_t>(phase << 16 | number);
  };
  const auto floats_of = [&](const Piece& s, std::uint32_t key) {
    const std::size_t offset = (key & 0xffff) * piece_floats;
    return data.subspan(s.offset + offset, std::min(piece_floats, s.size - offset));
  };

  // A piece is added to, or replaced, where it lies: it was sent on before, since what comes now was made of
  // it.
  std::size_t left = 0;
  for (std::size_t phase = 0; phase < phases; ++phase) {
    const Piece s = sent_in(phase + 1);
    for (std::size_t number = 0; number < pieces_of(s); ++number, ++left) {
      const std::uint32_t key = key_of(phase, number);
      expect(place, from, key, floats_of(s, key), phase < n - 1 ? Landing::add : Landing::replace);
    }
  }
  std::deque<std::uint32_t> to_send;
  for (std::size_t number = 0; number < pieces_of(sent_in(0)); ++number) to_send.push_back(key_of(0, number));
  while (left > 0 || !to_send.empty()) {
    bool sent = false;
    if (!to_send.empty() && transport_.has_room({Role::worker, to})) {
      const std::uint32_t key = to_send.front();
      to_send.pop_front();
      if (!send(place, to, key, floats_of(sent_in(key >> 16), key))) return false;
      sent = true;
    }
    // Between two pieces out, one in that is there already: both ways flow at once.
    std::optional<Arrival> arrival;
    if (!next(place, pump, sent ? Milliseconds(0) : a_while, arrival)) return false;
    if (!arrival) continue;
    --left;
    if ((arrival->key >> 16) + 1 < phases) to_send.push_back(arrival->key + (1u << 16));
  }
  return true;
}

}  // namespace mlk::rt
