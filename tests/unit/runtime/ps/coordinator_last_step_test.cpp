// How server 0 saves and reports the last step when a server cannot save it, or does not have it.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/runtime/coordinator_run.h"

TEST_SUITE_BEGIN("runtime/ps/coordinator_last_step");

namespace mlk::rt {
namespace {
namespace at_last_step {

using phases::Run;
using phases::server;
using phases::worker;

TEST_CASE("a worker seeds a server that lacks the weights of the step to be reported, and then reports") {
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

TEST_CASE("a worker seeds a server that lacks the weights of the last step, and then the step is saved") {
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

TEST_CASE(
    "the last checkpoint of a trained run is retried every 2 s, until the patience of the run is over") {
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
  CHECK(run.failure->code == ExitCode::checkpoint_unusable);
  CHECK(std::string(run.failure->what()) ==
        "trained, but the last checkpoint could not be written: server/1: no space");
  CHECK_FALSE(run.is_told(worker(0), MessageType::trained));
}

TEST_CASE("the last checkpoint is not retried while a server still writes its part of the earlier attempt") {
  Run run({.workers = 1, .servers = 2, .steps = 1, .saves = true, .patience = 60});
  run.start_both();
  run.done(0, 0, 0);
  const auto capture = run.hear_capture(1);
  REQUIRE(capture);
  run.captured(1, 1);
  run.written(0, {1, capture->aside, {}, "no space"});
  run.pass(Milliseconds(5000));
  CHECK_FALSE(run.is_told(server(1), MessageType::capture));
  SUBCASE("the server has written its part: the checkpoint is retried") {
    run.written(1, {1, capture->aside, {part_name(1), 1, 2}, ""});
    run.tick();
    CHECK(run.is_told(server(1), MessageType::capture));
  }
  SUBCASE("the patience of the run is over: the run fails") {
    run.pass(Milliseconds(55000));
    CHECK_FALSE(run.failure);
    run.pass(Milliseconds(100));
    REQUIRE(run.failure);
  }
  SUBCASE("SIGTERM arrives: server 0 ends after 15 s without the checkpoint") {
    run.stop();
    run.pass(Milliseconds(15000));
    CHECK_FALSE(run.coordinator.terminated());
    run.pass(Milliseconds(100));
    CHECK(run.coordinator.terminated());
  }
  SUBCASE("the server is lost, and its successor is seeded: the checkpoint is retried") {
    run.peer_down(server(1));
    run.server_joined(1, true, 0);
    run.join(0, 1);
    run.tick();
    run.seed_other();
    run.tick();
    CHECK(run.is_told(server(1), MessageType::capture));
  }
}

TEST_CASE("after SIGTERM, the last checkpoint of a trained run is still retried") {
  Run run({.workers = 1, .servers = 2, .steps = 1, .saves = true, .patience = 60});
  run.start_both();
  run.done(0, 0, 0);
  const auto first = run.hear_capture(1);
  REQUIRE(first);
  run.stop();
  run.written(1, {1, first->aside, {}, "no space"});
  run.pass(Milliseconds(2000));
  CHECK_FALSE(run.coordinator.terminated());
  const auto again = run.hear_capture(1);
  REQUIRE(again);
  run.captured(1, 1);
  run.written(1, {1, again->aside, {part_name(1), 1, 2}, ""});
  run.pass(Milliseconds(200));
  CHECK(run.coordinator.terminated());
  CHECK(run.coordinator.committed() == 1);
}

TEST_CASE("the reporting worker gets the step since which all saves have failed, and the reason") {
  Run run({.workers = 1, .servers = 2, .steps = 4, .every = 1, .saves = true});
  run.start_both();
  const auto fail = [&](std::uint64_t step, const char* why) {
    const auto capture = run.hear_capture(1);
    REQUIRE(capture);
    run.captured(1, step);
    run.written(1, {step, capture->aside, {}, why});
    run.tick();
  };
  run.done(0, 0, 0);
  fail(1, "no space");
  run.tick();
  run.done(0, 1, 0);
  fail(2, "gone");
  run.ready(0);
  WorkMessage work;
  while (!work.unsaved) work = run.hear_work(0);
  CHECK(work.unsaved->since == 1);
  CHECK(work.unsaved->reason.starts_with("server/1: "));
}

TEST_CASE("a run whose checkpoints cannot be saved does not begin") {
  Run run({.workers = 1, .servers = 2, .steps = 4, .saves = true});
  const Failure why(ExitCode::checkpoint_unusable, "server/1 cannot write checkpoints: no space");
  run.server_joined(1, true, 0);
  run.coordinator.unwritable(why);
  SUBCASE("the run would begin from the start") { run.join(0); }
  SUBCASE("the run would continue from a checkpoint") {
    run.saved = Coordinator::Saved{2, 200, {}, {}};
    run.join(0);
  }
  run.tick();
  REQUIRE(run.failure);
  CHECK(std::string(run.failure->what()) == why.what());
  CHECK(run.failure->code == ExitCode::checkpoint_unusable);
}

TEST_CASE(
    "an unwritable folder causes only a warning if a worker has trained weights or all steps are saved") {
  Run run({.workers = 1, .servers = 2, .steps = 4, .saves = true});
  run.server_joined(1, true, 0);
  run.coordinator.unwritable({ExitCode::checkpoint_unusable, "it is full"});
  SUBCASE("a worker has the model") { run.join(0, 3); }
  SUBCASE("the last checkpoint is there") {
    run.saved = Coordinator::Saved{4, 400, {}, {}};
    run.join(0);
  }
  run.tick();
  CHECK_FALSE(run.failure);
  CHECK(run.was_logged("warning: it is full"));
}

TEST_CASE("a run refuses to continue from a checkpoint that was made with other data") {
  Run run({.workers = 1, .servers = 2, .steps = 4, .saves = true});
  run.server_joined(1, true, 0);
  const DataSummary before{{10, 1}, {3, 2}};
  run.saved = Coordinator::Saved{2, 200, {}, {}, before};
  JoinMessage join = run.offer();
  SUBCASE("other data") {
    join.data = DataSummary{{10, 4}, {3, 2}};
    run.join(0, join);
    run.tick();
    REQUIRE(run.failure);
    CHECK(run.failure->code == ExitCode::bad_data);
  }
  SUBCASE("the same data") {
    join.data = before;
    run.join(0, join);
    run.tick();
    CHECK_FALSE(run.failure);
    CHECK(run.is_told(server(1), MessageType::seed_wanted));
  }
}

}  // namespace at_last_step
}  // namespace
}  // namespace mlk::rt
