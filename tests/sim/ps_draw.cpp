// The faults of a simulated run with parameter servers, drawn from a seed.
#include <algorithm>

#include "runtime/ps/machines/timers.h"
#include "tests/sim/ps_scenario.h"

namespace mlk::sim {
namespace {

using Kind = PsFault::Kind;
using rt::PeerId;
using rt::Role;

// Draws faults that belong together: each fault that begins also ends.
class FaultDraw {
 public:
  // Half of the faults happen soon after an earlier fault, while its consequences last.
  FaultDraw(Random& random, PsScenario& scenario, Duration storm)
      : random_(random), scenario_(scenario), processes_(scenario.processes()) {
    const Duration last = scenario.faults.back().at;
    const bool follows = scenario.faults.back().kind != Kind::start && random_.one_in(2);
    begin_ = follows ? last + random_.between(Duration(0), Duration(15s))
                     : random_.between(Duration(500ms), storm);
    draw_end();
  }
  // At a probe: half of the faults hit the process that has passed the probe.
  FaultDraw(Random& random, PsScenario& scenario, PeerId focus)
      : random_(random),
        scenario_(scenario),
        processes_(scenario.processes()),
        begin_(random.between(Duration(0), 3 * scenario.network.longest)),
        focus_(focus) {
    draw_end();
  }

  void draw() {
    switch (random_.below(26)) {
      case 0:
      case 1:
      case 2:
        return add(begin_, Kind::kill, any());
      case 3:
        return add(begin_, Kind::lose_host, any());
      case 4:
      case 5:
        return pair(Kind::freeze, Kind::thaw, any());
      case 6:
        return pair(Kind::isolate, Kind::reconnect, {Role::server, server()});
      case 7:  // one way
        return cut(any(), any());
      case 8:
      case 9: {  // both ways
        const PeerId one = any(), other{Role::server, server()};
        cut(one, other);
        return cut(other, one);
      }
      case 10:
        return random_.one_in(3) ? terminate_all() : add(begin_, Kind::terminate, any());
      case 11:  // killed twice: the second time while the other processes still handle the first end
        add(begin_, Kind::kill, any());
        return add(begin_ + random_.between(Duration(10ms), Duration(12s)), Kind::kill, any());
      case 12:
      case 13:
      case 14:
      case 15:
        return at_seeding();
      case 16:  // many processes at once
        for (const PeerId process : processes_) {
          if (random_.one_in(2)) add(begin_, Kind::kill, process);
        }
        return;
      case 17:
      case 18:
      case 19:
      case 20:
      case 21:
        return leave_behind();
      case 22:
        return stop_within_step();
      default:
        return disk();
    }
  }

 private:
  // A server is killed, and another fault happens at about the time when its successor is seeded.
  void at_seeding() {
    add(begin_, Kind::kill, {Role::server, server()});
    begin_ += random_.between(Duration(10s), Duration(14s));
    const PeerId process = any();
    if (random_.one_in(3)) return add(begin_, Kind::kill, process);
    end_ = begin_ + random_.between(Duration(1s), Duration(40s));
    if (random_.one_in(2)) return pair(Kind::freeze, Kind::thaw, process);
    const PeerId other{Role::server, server()};
    cut(process, other);
    cut(other, process);
  }

  // A frozen worker misses the steps of the other workers. It comes back when those steps are lost, or when
  // the other workers have begun again and lose a server once more.
  void leave_behind() {
    const PeerId behind{Role::worker, worker()};
    const Duration lost = begin_ + random_.between(Duration(6s), Duration(12s));
    add(begin_, Kind::freeze, behind);
    add(lost, Kind::kill, {Role::server, server()});
    for (const PeerId process : processes_) {
      if (process.role == Role::worker && process != behind) add(lost, Kind::kill, process);
    }
    if (random_.one_in(2))
      return add(lost + random_.between(Duration(3s), Duration(10s)), Kind::thaw, behind);
    const Duration again = lost + random_.between(Duration(11s), Duration(20s));
    add(again, Kind::kill, {Role::server, server()});
    add(again + random_.between(Duration(0), Duration(15s)), Kind::thaw, behind);
  }
  // A server gets SIGTERM while a worker does not answer.
  void stop_within_step() {
    pair(Kind::freeze, Kind::thaw, {Role::worker, worker()});
    add(begin_ + random_.between(Duration(0), Duration(2s)), Kind::terminate, {Role::server, server()});
  }

  // Short faults end within every patience. Long faults outlast the patience of connections, and some also
  // the patience of the run.
  void draw_end() {
    end_ = begin_ + (random_.one_in(2)   ? random_.between(Duration(10ms), Duration(4s))
                     : random_.one_in(8) ? random_.between(Duration(40s), Duration(200s))
                                         : random_.between(Duration(4s), Duration(40s)));
  }
  PeerId any() {
    return focus_ && random_.one_in(2) ? *focus_ : processes_[random_.below(processes_.size())];
  }
  std::uint32_t worker() { return static_cast<std::uint32_t>(random_.below(scenario_.workers)); }
  std::uint32_t server() { return static_cast<std::uint32_t>(random_.below(scenario_.servers)); }
  void add(Duration at, Kind kind, PeerId first, PeerId second = {}, int value = 0) {
    scenario_.faults.push_back({at, kind, first, second, value});
  }
  void pair(Kind from, Kind until, PeerId process) {
    add(begin_, from, process);
    add(end_, until, process);
  }
  void cut(PeerId from, PeerId to) {
    if (from == to) return;
    add(begin_, Kind::cut, from, to);
    add(end_, Kind::heal, from, to);
  }
  void terminate_all() {
    for (const PeerId process : processes_)
      add(begin_ + random_.between(Duration(0), Duration(1s)), Kind::terminate, process);
  }
  void disk() {
    if (random_.one_in(4)) return add(begin_, Kind::lose_disk, {});
    const bool full = random_.one_in(2);
    const auto kind = full ? Kind::disk_full : Kind::disk_slow;
    add(begin_, kind, {}, {}, full ? 1 : static_cast<int>(random_.between(5, 100)));
    add(end_, kind, {}, {}, full ? 0 : 1);
  }

  Random& random_;
  PsScenario& scenario_;
  const std::vector<PeerId> processes_;
  Duration begin_{0}, end_{0};
  const std::optional<PeerId> focus_;
};

// The server of a network file system is unreachable for minutes.
void hang_disk(PsScenario& s, Random& random, Duration storm) {
  s.write = random.between(Duration(2s), Duration(8s));
  s.longest_write = random.between(Duration(100s), Duration(400s));
  const Duration begin = random.between(Duration(0), storm);
  s.faults.push_back({begin, Kind::disk_slow, {}, {}, 200});
  s.faults.push_back({begin + random.between(Duration(10s), Duration(200s)), Kind::disk_slow, {}, {}, 1});
}

// The disk stays full during the patience of server 0: the run ends without the last checkpoint.
void fill_disk(PsScenario& s, Random& random, Duration storm) {
  if (!s.disk) return;
  s.faults.push_back({random.between(Duration(0), storm), Kind::disk_full, {}, {}, 1});
  s.faults.push_back(
      {storm + s.patience + random.between(Duration(10s), Duration(120s)), Kind::disk_full, {}, {}, 0});
}

// A worker starts when the other workers, and all servers except perhaps server 0, have ended.
void come_after_the_end(PsScenario& s, Random& random, Duration storm) {
  if (s.workers == 1 || s.servers == 1) return;
  s.minimum = 1;
  s.late = std::chrono::seconds(random.between(1, 8));
  s.seen = random.between(Duration(10s), Duration(240s));
  s.lost_at_end = true;
  const PeerId last{Role::worker, s.workers - 1};
  const auto begins = std::ranges::find(s.faults, last, &PsFault::first);
  begins->at = storm + random.between(Duration(10s), Duration(60s));
}

// The cluster is full for so long that server 0, without workers, is about to end.
void come_after_a_day(PsScenario& s, Random& random) {
  PsScenario calm;
  calm.seed = s.seed;
  calm.workers = s.workers;
  calm.consistency = s.consistency;
  calm.network = s.network;
  s = calm;
  for (const PeerId process : s.processes()) s.faults.push_back({Duration(0), Kind::start, process, {}, 0});
  for (PsFault& start : s.faults) {
    if (start.first.role == Role::worker)
      start.at = rt::ps_timers::first_worker_patience + random.between(Duration(-60s), Duration(600s));
  }
}

}  // namespace

PsScenario draw_ps(std::uint64_t seed, std::uint32_t ranks) {
  Random random(mix(seed, 3));
  PsScenario s;
  s.seed = seed;
  s.servers = static_cast<std::uint32_t>(random.between(1, 3));
  s.workers = static_cast<std::uint32_t>(random.one_in(200) ? random.between(9, 37)
                                         : random.one_in(6) ? random.between(4, 8)
                                                            : random.between(1, 3));
  if (ranks > 1) {
    s.servers = std::min(s.servers, ranks - 1);
    s.workers = ranks - s.servers;
  }
  s.minimum = static_cast<std::uint32_t>(random.between(1, s.workers));
  s.consistency.sync = random.one_in(2);
  if (!s.consistency.sync && random.one_in(2)) s.consistency.staleness = static_cast<int>(random.below(4));
  s.steps = random.between(6, 30);
  if (!s.consistency.sync) s.steps *= std::min(s.workers, 4u);
  s.checkpoint_every = random.between(1, 12);
  s.patience = std::chrono::seconds(random.between(90, 180));
  s.offline = std::chrono::seconds(random.one_in(2) ? random.between(1, 20) : 0);
  s.compute = random.between(Duration(20ms), Duration(random.one_in(3) ? 3s : 1200ms));
  if (random.one_in(10)) {  // a few slow steps
    s.steps = (s.steps + 5) / 6;
    s.compute = random.between(Duration(5s), Duration(20s));
  }
  s.write = random.between(Duration(1ms), Duration(random.one_in(4) ? 8s : 500ms));
  s.network.longest = random.between(Duration(100us), Duration(random.one_in(4) ? 400ms : 5ms));
  s.network.frozen_are_lost = random.one_in(3);
  s.disk = !random.one_in(4);
  for (const PeerId process : s.processes()) {
    s.faults.push_back(
        {random.between(Duration(0), Duration(random.one_in(12) ? 20s : 1s)), Kind::start, process, {}, 0});
  }
  // The last server starts when other processes have given up waiting for it.
  if (random.one_in(75)) s.faults.back().at = random.between(Duration(90s), Duration(250s));
  // The storm is over before the end of training, if no fault delays the training.
  const Duration training = static_cast<std::int64_t>(s.steps) * s.compute / (s.consistency.sync ? 1 : 2);
  const Duration storm = std::clamp<Duration>(training + (random.one_in(3) ? 15s : 0s), 2s, 60s);
  for (auto left = random.below(10); left > 0; --left) FaultDraw(random, s, storm).draw();
  if (random.one_in(3)) {
    for (auto left = random.below(s.workers - s.minimum + 1); left > 0; --left)
      s.never.insert(static_cast<std::uint32_t>(random.below(s.workers)));
  }
  Random more(mix(seed, 6));
  if (!more.one_in(4)) s.at_probes = {more.next() | 1, more.between(storm, storm + 10s)};
  Random end(mix(seed, 7));
  if (end.one_in(5)) s.late = std::chrono::seconds(end.between(1, 20));
  if (end.one_in(5)) s.seen = end.between(Duration(0), Duration(60s));
  if (end.one_in(20)) hang_disk(s, end, storm);
  if (end.one_in(8)) come_after_the_end(s, end, storm);
  if (end.one_in(4000)) come_after_a_day(s, end);
  Random room(mix(seed, 8));
  if (room.one_in(40)) fill_disk(s, room, storm);
  return s;
}

std::vector<PsFault> draw_at_probe(std::uint64_t seed, const PsScenario& scenario, PeerId process) {
  Random random(seed);
  PsScenario drawn = scenario;
  drawn.faults.clear();
  for (auto left = random.between(1, 2); left > 0; --left) FaultDraw(random, drawn, process).draw();
  return drawn.faults;
}

}  // namespace mlk::sim
