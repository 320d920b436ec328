// The faults and settings of a simulated run with parameter servers: drawn from a seed, or read from a file.
//
// The text is that of scenario.h, after a first line `mode ps`. The differences are:
//   workers 3, servers 2, minimum 1 (workers), consistency sync, or async, or N (bounded staleness)
//   offline 10         offline_seconds
//   longest_write 20000   ms, however slow the disk is
//   seen 3000          ms from the making of a checkpoint until workers find it (a file system with a cache)
//   lost_at_end 1       server 0 is killed once it has sent the first message that the run is trained
//   at 4.5 kill server/1     processes by their names; also: lose_host, freeze, thaw, terminate (SIGTERM),
//                            isolate (all its connections are cut, and its Job starts a successor
//                            beside it), reconnect (others can reach it again),
//                            cut FROM TO, heal FROM TO, start
//   at 4.5 disk_full 0 or 1, disk_slow FACTOR, lose_disk
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/launch/config.h"
#include "runtime/membership/peers.h"
#include "runtime/transport/wire.h"
#include "tests/sim/network.h"
#include "tests/sim/probes.h"

namespace mlk::sim {

struct PsFault {
  enum class Kind {
    start,
    kill,
    lose_host,
    freeze,
    thaw,
    terminate,
    isolate,
    reconnect,
    cut,
    heal,
    disk_full,
    disk_slow,
    lose_disk
  };
  Duration at{0};
  Kind kind = Kind::kill;
  rt::PeerId first = {}, second = {};
  int value = 0;  // of the disk
};

struct PsScenario {
  std::uint64_t seed = 0;
  std::uint32_t workers = 2, servers = 1, minimum = 1;
  rt::Consistency consistency;
  std::uint64_t steps = 20, checkpoint_every = 5;
  int batch = 4;
  std::chrono::seconds patience{120}, late{60}, offline{0};
  Duration compute{50ms}, write{100ms}, longest_write{20s}, seen{0};
  NetworkSettings network{.retry_max = rt::server_retry_max, .plants = {}};
  bool disk = true;
  bool lost_at_end = false;
  std::vector<PsFault> faults;
  std::set<std::uint32_t> never;  // workers that are not started again
  ProbeFaults at_probes;
  std::set<std::string> passes;  // probes that the run must pass

  rt::Config config() const;
  std::vector<rt::PeerId> processes() const;
};

// Defined in ps_draw.cpp. ranks: workers and servers together; 0: the seed determines their number.
PsScenario draw_ps(std::uint64_t seed, std::uint32_t ranks);
// The faults after `process` has passed a probe; their times count from that moment.
std::vector<PsFault> draw_at_probe(std::uint64_t seed, const PsScenario& scenario, rt::PeerId process);

bool is_ps_scenario(const std::string& text);
// Throws std::runtime_error that names the line.
PsScenario parse_ps_scenario(const std::string& text);
std::string to_text(const PsScenario& scenario);
std::string to_text(const PsFault& fault);

}  // namespace mlk::sim
