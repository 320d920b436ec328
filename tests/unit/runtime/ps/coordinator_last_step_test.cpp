// How server 0 has the last step saved and reported, when a server cannot save it, or does not have it.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/runtime/coordinator_run.h"

namespace mlk::rt {
namespace {
namespace at_last_step {

using phases::Run;
using phases::server;
using phases::worker;

TEST_CASE("a server that has no weights of the step that is to be reported is seeded with them") {
  Run run({.workers = 1, .servers = 2, .steps = 1});
  run.start_both();
  run.done(0, 0, 0);
  run.hear(worker(0), {MessageType::trained});
  run.server_without(1, 1);
  CHECK(run.coordinator.gathering());
  run.join(0, 1);
  run.tick();
  run.seed_other();
  run.ready(0);
  run.hear(worker(0), {MessageType::trained});
}

TEST_CASE("a server that has no weights of the last step is seeded with them, and the step is saved") {
  Run run({.workers = 1, .servers = 2, .steps = 1, .saves = true});
  run.start_both();
  run.done(0, 0, 0);
  const auto capture = run.hear_capture(1);
  REQUIRE(capture);
  run.written(1, {1, capture->aside, {}, "its weights are of step 0"});
  run.server_without(1, 1);
  CHECK(run.coordinator.gathering());
  run.tick();
  run.join(0, 1);
  run.tick();
  run.seed_other();
  CHECK(run.coordinator.saving());
  CHECK(run.is_told(server(1), MessageType::capture));
}

TEST_CASE("the last checkpoint of a trained run is tried again every 2 s, until its patience is over") {
  Run run({.workers = 1, .servers = 2, .steps = 1, .saves = true, .patience = 5});
  run.start_both();
  run.done(0, 0, 0);
  for (int tries = 1; tries <= 3; ++tries) {
    CAPTURE(tries);
    const auto capture = run.hear_capture(1);
    REQUIRE(capture);
    CHECK(run.coordinator.saving());
    run.written(1, {1, capture->aside, {}, "no space"});
    if (tries == 3) break;
    run.pass(Milliseconds(1900));
    CHECK_FALSE(run.is_told(server(1), MessageType::capture));
    run.pass(Milliseconds(100));
  }
  run.pass(Milliseconds(1000));
  CHECK_FALSE(run.failure);
  run.pass(Milliseconds(100));
  REQUIRE(run.failure);
  CHECK(std::string(run.failure->what()) == "trained, but the last checkpoint could not be written");
  CHECK_FALSE(run.is_told(worker(0), MessageType::trained));
}

TEST_CASE("the last checkpoint is not tried again while a server still writes its part of the one before") {
  Run run({.workers = 1, .servers = 2, .steps = 1, .saves = true, .patience = 60});
  run.start_both();
  run.done(0, 0, 0);
  const auto capture = run.hear_capture(1);
  REQUIRE(capture);
  run.captured(1, 1);
  run.written(0, {1, capture->aside, {}, "no space"});
  run.pass(Milliseconds(5000));
  CHECK_FALSE(run.is_told(server(1), MessageType::capture));
  SUBCASE("until it has written it") {
    run.written(1, {1, capture->aside, {part_name(1), 1, 2}, ""});
    run.tick();
    CHECK(run.is_told(server(1), MessageType::capture));
  }
  SUBCASE("which ends with the patience, too") {
    run.pass(Milliseconds(55000));
    CHECK_FALSE(run.failure);
    run.pass(Milliseconds(100));
    REQUIRE(run.failure);
  }
  SUBCASE("but SIGTERM ends it without one") {
    run.stop();
    run.tick();
    CHECK(run.coordinator.terminated());
  }
  SUBCASE("or the server is lost") {
    run.peer_down(server(1));
    run.server_joined(1, true, 0);
    run.join(0, 1);
    run.tick();
    run.seed_other();
    run.tick();
    CHECK(run.is_told(server(1), MessageType::capture));
  }
}

}  // namespace at_last_step
}  // namespace
}  // namespace mlk::rt
