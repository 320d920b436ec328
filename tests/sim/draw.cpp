// The faults of a simulated run with allreduce, drawn from a seed.
#include "tests/sim/scenario.h"

namespace mlk::sim {
namespace {

std::uint32_t draw_ranks(Random& random) {
  if (random.one_in(200)) return static_cast<std::uint32_t>(random.between(11, 40));
  return static_cast<std::uint32_t>(random.one_in(8) ? random.between(6, 10) : random.between(2, 5));
}

// Cuts the network between two sides; sometimes only one side stops hearing the other.
void cut_sides(Random& random, Scenario& scenario, Duration begin, Duration end) {
  const std::uint64_t side = random.next();
  const bool both = !random.one_in(3);
  for (std::uint32_t one = 0; one < scenario.settings.ranks; ++one) {
    for (std::uint32_t other = 0; other < scenario.settings.ranks; ++other) {
      const bool of_one = side >> (one % 64) & 1, of_other = side >> (other % 64) & 1;
      if (of_one == of_other || !(both || of_one)) continue;
      scenario.faults.push_back({begin, Fault::Kind::cut, one, other});
      scenario.faults.push_back({end, Fault::Kind::heal, one, other});
    }
  }
}

// All ranks can reach each other again.
void heal_all(Scenario& scenario, Duration at) {
  for (std::uint32_t one = 0; one < scenario.settings.ranks; ++one) {
    for (std::uint32_t other = 0; other < scenario.settings.ranks; ++other) {
      if (one != other) scenario.faults.push_back({at, Fault::Kind::heal, one, other});
    }
  }
}

// Draws faults that belong together: each fault that begins also ends. focus: the rank that half of the
// faults hit.
void draw_fault(Random& random, Scenario& scenario, Duration begin, std::optional<std::uint32_t> focus = {}) {
  const std::uint32_t ranks = scenario.settings.ranks;
  const auto rank = [&] {
    return focus && random.one_in(2) ? *focus : static_cast<std::uint32_t>(random.below(ranks));
  };
  const auto add = [&](Duration at, Fault::Kind kind, std::uint32_t first, std::uint32_t second = 0) {
    scenario.faults.push_back({at, kind, first, second});
  };
  // Short faults end within every patience, and long faults may outlast one.
  const auto for_a_while = [&] {
    return random.one_in(2) ? random.between(Duration(10ms), Duration(4s))
                            : random.between(Duration(4s), Duration(40s));
  };
  const auto cut = [&](std::uint32_t from, std::uint32_t to, Duration end) {
    if (from == to) return;
    add(begin, Fault::Kind::cut, from, to);
    add(end, Fault::Kind::heal, from, to);
  };
  const Duration end = begin + for_a_while();
  switch (random.below(11)) {
    case 0:
    case 1:
      return add(begin, Fault::Kind::kill, rank());
    case 2:
      return add(begin, Fault::Kind::lose_host, rank());
    case 3:
    case 4: {
      const std::uint32_t frozen = rank();
      add(begin, Fault::Kind::freeze, frozen);
      return add(end, Fault::Kind::thaw, frozen);
    }
    case 5:  // one way
      return cut(rank(), rank(), end);
    case 6: {  // both ways
      const std::uint32_t one = rank(), other = rank();
      cut(one, other, end);
      return cut(other, one, end);
    }
    case 7:
      return cut_sides(random, scenario, begin, end);
    case 8:
    case 9: {  // a drained node: several ranks at once
      for (auto left = random.one_in(3) ? random.between(1, ranks) : 1; left > 0; --left)
        add(begin + (random.one_in(2) ? Duration(0) : random.between(Duration(0), Duration(2s))),
            Fault::Kind::terminate, rank());
      return;
    }
    default:
      if (random.one_in(6)) return add(begin, Fault::Kind::lose_disk, 0);
      if (random.one_in(2)) {
        add(begin, Fault::Kind::disk_full, 1);
        return add(end, Fault::Kind::disk_full, 0);
      }
      add(begin, Fault::Kind::disk_slow, static_cast<std::uint32_t>(random.between(5, 100)));
      return add(end, Fault::Kind::disk_slow, 1);
  }
}

// The transfer of a state takes longer than a rank waits for a part of it, and delays the messages after it.
// So the ranks get the default patience.
void draw_slow_transfers(Random& random, Scenario& scenario, Duration begin) {
  const auto factor = random.between(Duration(100s), Duration(140s)) / scenario.settings.transfer;
  scenario.settings.patience = 900s;
  scenario.faults.push_back({begin, Fault::Kind::transfer_slow, static_cast<std::uint32_t>(factor)});
  scenario.faults.push_back(
      {begin + random.between(Duration(5s), Duration(40s)), Fault::Kind::transfer_slow, 1});
}

}  // namespace

Scenario draw(std::uint64_t seed, std::uint32_t ranks) {
  Random random(mix(seed, 1));
  Scenario scenario;
  scenario.seed = seed;
  RunSettings& s = scenario.settings;
  s.ranks = ranks > 0 ? ranks : draw_ranks(random);
  s.minimum = static_cast<std::uint32_t>(random.one_in(2) ? s.ranks / 2 + 1 : random.between(1, s.ranks));
  s.seeds = random.one_in(3) ? static_cast<std::uint32_t>(random.between(1, s.ranks)) : s.ranks;
  s.steps = random.between(5, s.ranks > 10 ? 20 : 40);
  s.checkpoint_every = random.between(1, 20);
  s.patience = std::chrono::seconds(random.between(60, 180));
  s.compute = random.between(Duration(2ms), Duration(random.one_in(3) ? 4s : 800ms));
  s.transfer = random.between(Duration(1ms), Duration(random.one_in(4) ? 8s : 200ms));
  s.write = random.between(Duration(1ms), Duration(random.one_in(4) ? 10s : 500ms));
  s.network.longest = random.between(Duration(100us), Duration(random.one_in(4) ? 400ms : 5ms));
  s.network.frozen_are_lost = random.one_in(3);
  scenario.disk = !random.one_in(5);
  s.overlaps = random.one_in(2);
  for (std::uint32_t rank = 0; rank < s.ranks; ++rank) {
    scenario.drift_ppm.push_back(static_cast<std::int64_t>(random.below(401)) - 200);
    scenario.faults.push_back(
        {random.between(Duration(0), Duration(random.one_in(4) ? 20s : 1s)), Fault::Kind::start, rank, 0});
  }
  // Sometimes many faults happen within a short time.
  const bool burst = random.one_in(3);
  const Duration storm =
      burst ? random.between(Duration(2s), Duration(8s)) : random.between(Duration(5s), Duration(60s));
  for (auto left = burst ? random.between(3, 9) : random.below(7); left > 0; --left)
    draw_fault(random, scenario, random.between(Duration(0), storm));
  // Two groups of ranks that start apart.
  if (random.one_in(12))
    cut_sides(random, scenario, Duration(0), random.between(Duration(2s), Duration(20s)));
  // The remaining ranks are more than half, and enough to begin.
  const std::uint32_t most = std::min(s.ranks - s.minimum, (s.ranks - 1) / 2);
  // A rank may be missing only if all ranks are seeds, since then no rank is found through another rank.
  if (s.seeds == s.ranks && random.one_in(3)) {
    for (auto left = random.below(most + 1); left > 0; --left)
      scenario.never.insert(static_cast<std::uint32_t>(random.below(s.ranks)));
  }
  Random more(mix(seed, 5));
  if (s.ranks > 2 && s.minimum < s.ranks && s.seeds == s.ranks && scenario.never.empty() && more.one_in(12)) {
    const auto one = more.below(s.ranks), other = (one + more.between(1, s.ranks - 1)) % s.ranks;
    scenario.apart.emplace(one, other);
  }
  if (!more.one_in(4)) scenario.at_probes = {more.next() | 1, more.between(storm, storm + 10s)};
  Random rare(mix(seed, 7));
  Random devices(mix(seed, 11));
  s.devices = devices.one_in(3);
  for (auto left = s.devices ? devices.below(4) : 0; left > 0; --left)
    scenario.faults.push_back({devices.between(Duration(0), storm), Fault::Kind::hang,
                               static_cast<std::uint32_t>(devices.below(s.ranks)), 0});
  if (s.ranks < 5 && rare.one_in(24)) draw_slow_transfers(rare, scenario, rare.between(Duration(0), storm));
  return scenario;
}

std::vector<Fault> draw_at_probe(std::uint64_t seed, const Scenario& scenario, std::uint32_t rank) {
  Random random(seed);
  Scenario drawn;
  drawn.settings = scenario.settings;
  // The fault may come while messages that the rank has just sent are still in flight.
  const Duration begin = random.between(Duration(0), 3 * scenario.settings.network.longest);
  const Duration end = begin + random.between(Duration(1s), Duration(30s));
  if (random.one_in(3)) {  // other sides than in earlier cuts
    heal_all(drawn, begin);
    cut_sides(random, drawn, begin, end);
  } else if (random.one_in(2)) {  // no rank hears this rank, and perhaps it hears no other rank
    const bool both = random.one_in(2);
    for (std::uint32_t other = 0; other < drawn.settings.ranks; ++other) {
      if (other == rank) continue;
      drawn.faults.push_back({begin, Fault::Kind::cut, rank, other});
      drawn.faults.push_back({end, Fault::Kind::heal, rank, other});
      if (!both) continue;
      drawn.faults.push_back({begin, Fault::Kind::cut, other, rank});
      drawn.faults.push_back({end, Fault::Kind::heal, other, rank});
    }
  } else {
    for (auto left = random.between(1, 2); left > 0; --left) draw_fault(random, drawn, begin, rank);
  }
  return drawn.faults;
}

}  // namespace mlk::sim
