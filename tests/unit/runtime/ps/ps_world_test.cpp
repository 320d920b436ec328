// Whole runs with parameter servers in virtual time: processes are killed, fall silent, and are told to stop.
#include "tests/unit/runtime/ps_world.h"

#include <doctest/doctest.h>

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

TEST_CASE("a run in virtual time is trained, and all of its processes end well") {
  for (const bool sync : {true, false}) check_ends_well({.sync = sync, .faults = 0});
}

TEST_CASE("whatever befalls its processes, and when, a run is trained, with each slice counted once") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    check_ends_well({.seed = seed, .sync = true, .disk = seed % 2 == 0});
    check_ends_well({.workers = 3, .seed = seed, .sync = true, .offline = 4});
    check_ends_well({.workers = 3, .servers = 1, .seed = seed, .sync = false, .disk = seed % 2 == 0});
  }
}

}  // namespace in_world
}  // namespace
}  // namespace mlk::rt
