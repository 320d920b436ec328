// Whole runs with parameter servers in virtual time: processes are killed, fall silent, and have to stop.
#include <doctest/doctest.h>

#include "tests/unit/runtime/ps_world.h"

TEST_SUITE_BEGIN("runtime/ps/world");

namespace mlk::rt {
namespace {
namespace in_world {

using std::chrono::seconds;
using world::Setup;
using world::World;

void check_ends_well(const Setup& setup) {
  World run(setup);
  const bool over = run.run(seconds(1000));
  INFO(run.story());
  CAPTURE(setup.seed);
  CAPTURE(setup.sync);
  CAPTURE(setup.disk);
  REQUIRE(over);
  CHECK(run.evaluated_step() == setup.steps);
  for (const auto& [peer, code] : run.ended()) {
    INFO(to_string(peer));
    CHECK(code == ExitCode::trained);
  }
}

TEST_CASE("a run in virtual time without faults is trained, and all of its processes end with exit code 0") {
  for (const bool sync : {true, false}) check_ends_well({.sync = sync, .faults = 0});
}

TEST_CASE("a run is trained under random faults of 40 seeds, and each slice counts once") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    check_ends_well({.seed = seed, .sync = true, .disk = seed % 2 == 0});
    check_ends_well({.workers = 3, .seed = seed, .sync = true, .offline = 4});
    check_ends_well({.workers = 3, .servers = 1, .seed = seed, .sync = false, .disk = seed % 2 == 0});
  }
}

// A worker falls silent, and another worker with fewer steps seeds a server. Later the silent worker is back
// and seeds another server. So the two servers are at different steps, and no worker has weights for both.
TEST_CASE("servers that were seeded at different steps are brought to one step, and the run continues") {
  check_ends_well({.workers = 2, .servers = 3, .seed = 1015, .disk = false, .faults = 10});
  check_ends_well({.workers = 3, .servers = 3, .seed = 1016, .disk = true, .faults = 10});
  check_ends_well({.workers = 2, .servers = 2, .seed = 1084, .disk = false, .faults = 10});
}

}  // namespace in_world
}  // namespace
}  // namespace mlk::rt
