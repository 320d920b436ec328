// Two ways to add up: each sends all to all, which takes one step, or pieces travel around a ring, which
// takes 2(n-1) steps and moves 2(n-1)/n of the bytes. Between two members both move the same bytes.
#include "runtime/ring.h"

#include <algorithm>
#include <cstring>

namespace mlk::rt {
namespace {

constexpr std::size_t most_early_frames = 65536;

}  // namespace

bool Ring::sum(std::span<float> data, const Place& place, const Pump& pump) {
  std::erase_if(early_, [&](const auto& entry) {
    return std::tie(std::get<0>(entry.first), std::get<1>(entry.first)) <
           std::tie(place.generation, place.step);
  });
  if (place.ranks.size() <= 1) return true;
  expected_.clear();
  const LandingsGuard guard(transport_.landings());
  const bool direct = place.ranks.size() == 2 || data.size() <= direct_floats;
  return direct ? sum_directly(data, place, pump) : sum_around(data, place, pump);
}

void Ring::keep(Event&& event) {
  if (event.landed || early_.size() >= most_early_frames) return;
  const Header& h = event.header;
  early_[{h.generation, h.clock, event.peer.rank, h.key}] = std::move(event.payload);
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

void Ring::expect(const Place& place, std::uint32_t from, std::uint32_t key, std::span<float> into) {
  expected_[{from, key}] = into;
  if (early_.contains({place.generation, place.step, from, key})) return;
  transport_.landings().expect({{Role::worker, from}, MessageType::reduce, place.generation, place.step, key},
                               std::as_writable_bytes(into));
}

bool Ring::next(const Place& place, const Pump& pump, Arrival& arrival) {
  while (true) {
    for (auto found = early_.lower_bound({place.generation, place.step, 0, 0});
         found != early_.end() && std::get<0>(found->first) == place.generation &&
         std::get<1>(found->first) == place.step;) {
      const auto [generation, step, from, key] = found->first;
      const auto into = expected_.find({from, key});
      if (into == expected_.end() || into->second.size_bytes() != found->second.size()) {
        found = early_.erase(found);
        continue;
      }
      std::memcpy(into->second.data(), found->second.data(), found->second.size());
      early_.erase(found);
      expected_.erase(into);
      arrival = {from, key};
      return true;
    }
    std::optional<Event> event;
    if (!pump(event)) return false;
    if (!event) continue;
    const Header& h = event->header;
    if (event->landed) {
      // Landed frames are of this sum: an earlier sum's buffers were all filled or taken back.
      if (h.generation != place.generation || h.clock != place.step) continue;
      expected_.erase({event->peer.rank, h.key});
      arrival = {event->peer.rank, h.key};
      return true;
    }
    keep(std::move(*event));
  }
}

bool Ring::sum_directly(std::span<float> data, const Place& place, const Pump& pump) {
  const std::size_t others = place.ranks.size() - 1;
  scratch_.resize(data.size() * others);
  const auto pieces = static_cast<std::uint32_t>((data.size() + piece_floats - 1) / piece_floats);
  const auto piece_of = [&](std::uint32_t key) {
    const std::size_t offset = key * piece_floats;
    return Piece{offset, std::min(piece_floats, data.size() - offset)};
  };
  // Where the summands of each other rank go, in the order of the ranks.
  std::map<std::uint32_t, std::span<float>> from;
  for (const std::uint32_t rank : place.ranks) {
    if (rank == place.ranks[place.index]) continue;
    from[rank] = std::span(scratch_).subspan(from.size() * data.size(), data.size());
  }
  for (std::uint32_t key = 0; key < pieces; ++key) {
    const Piece piece = piece_of(key);
    for (auto& [rank, buffer] : from) expect(place, rank, key, buffer.subspan(piece.offset, piece.size));
  }
  for (std::uint32_t key = 0; key < pieces; ++key) {
    const Piece piece = piece_of(key);
    for (const auto& [rank, buffer] : from) {
      if (!send(place, rank, key, data.subspan(piece.offset, piece.size))) return false;
    }
  }
  std::vector<std::size_t> arrived(pieces, 0);
  for (std::size_t left = pieces * others; left > 0; --left) {
    Arrival arrival;
    if (!next(place, pump, arrival)) return false;
    if (++arrived[arrival.key] < others) continue;
    // The piece is here from everybody: add in the order of the ranks, so that all get the same bits.
    const Piece piece = piece_of(arrival.key);
    const auto own = data.subspan(piece.offset, piece.size);
    for (std::size_t i = 0; i < piece.size; ++i) {
      float total = 0;
      auto other = from.begin();
      for (std::size_t at = 0; at < place.ranks.size(); ++at) {
        total += at == place.index ? own[i] : (other++)->second[piece.offset + i];
      }
      own[i] = total;
    }
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
  const auto received_in = [&](std::size_t phase) { return segment((place.index + 2 * n - phase - 1) % n); };
  const auto pieces_of = [](const Piece& s) { return (s.size + piece_floats - 1) / piece_floats; };
  const auto piece_in = [](const Piece& s, std::size_t number) {
    const std::size_t offset = number * piece_floats;
    return Piece{s.offset + offset, std::min(piece_floats, s.size - offset)};
  };
  const auto key_of = [](std::size_t phase, std::size_t number) {
    return static_cast<std::uint32_t>(phase << 16 | number);
  };
  scratch_.resize(data.size());

  std::size_t left = 0;
  for (std::size_t phase = 0; phase < phases; ++phase) {
    const Piece s = received_in(phase);
    for (std::size_t number = 0; number < pieces_of(s); ++number, ++left) {
      const Piece piece = piece_in(s, number);
      const std::span<float> target = phase < n - 1 ? std::span<float>(scratch_) : data;
      expect(place, from, key_of(phase, number), target.subspan(piece.offset, piece.size));
    }
  }
  const Piece first = segment(place.index);
  for (std::size_t number = 0; number < pieces_of(first); ++number) {
    const Piece piece = piece_in(first, number);
    if (!send(place, to, key_of(0, number), data.subspan(piece.offset, piece.size))) return false;
  }
  for (; left > 0; --left) {
    Arrival arrival;
    if (!next(place, pump, arrival)) return false;
    const std::size_t phase = arrival.key >> 16, number = arrival.key & 0xffff;
    const Piece piece = piece_in(received_in(phase), number);
    const auto own = data.subspan(piece.offset, piece.size);
    if (phase < n - 1) {
      for (std::size_t i = 0; i < piece.size; ++i) own[i] += scratch_[piece.offset + i];
    }
    if (phase + 1 < phases && !send(place, to, key_of(phase + 1, number), own)) return false;
  }
  return true;
}

}  // namespace mlk::rt
