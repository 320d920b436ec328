// How server 0 makes a checkpoint together with the other servers, and when it abandons the checkpoint.
#include <doctest/doctest.h>

#include "tests/unit/runtime/coordinator_run.h"

TEST_SUITE_BEGIN("runtime/ps/coordinator_checkpoints");

namespace mlk::rt {
namespace {
namespace with_checkpoints {

using phases::Run;
using phases::server;
using phases::worker;

TEST_CASE("training pauses for a checkpoint only until the other server has copied its part") {
  Run run({.workers = 1, .servers = 2, .every = 2, .saves = true});
  run.start_both();
  run.done(0, 0, 0);
  run.work(0);
  CHECK_FALSE(run.is_told(server(1), MessageType::capture));
  run.done(0, 1, 0);
  const auto asked = run.hear(server(1), {MessageType::capture});
  const auto capture = decode_capture(asked.header, asked.payload);
  REQUIRE(capture);
  CHECK(capture->step == 2);
  CHECK(capture->position == 8);
  CHECK(run.coordinator.saving());
  run.tick();
  CHECK_FALSE(run.is_told(worker(0), MessageType::work));
  run.captured(1, 1);
  CHECK(run.coordinator.saving());
  run.captured(1, 2);
  CHECK_FALSE(run.coordinator.saving());
  CHECK(run.work(0).header.clock == 2);
  // The next checkpoint is due while this one is still being written: training continues.
  run.done(0, 2, 0);
  run.work(0);
  run.done(0, 3, 0);
  CHECK(run.work(0).header.clock == 4);
  CHECK_FALSE(run.is_told(server(1), MessageType::capture));
  run.written(1, {2, capture->aside, {}, "no space"});
  CHECK(run.was_logged("warning: no checkpoint of step 2: server/1: no space"));
  CHECK(run.coordinator.committed() == 0);
}

TEST_CASE("a work message has the step of the newest checkpoint") {
  Run run({.workers = 1, .every = 2, .saves = true});
  run.start();
  run.done(0, 0, 0);
  CHECK(Run::content(run.work(0)).checkpoint == 0);
  run.done(0, 1, 0);
  run.work(0);
  run.until([&] { return run.coordinator.committed() != 0; });
  CHECK(run.coordinator.committed() == 2);
  run.done(0, 2, 0);
  const WorkMessage work = Run::content(run.work(0));
  CHECK(work.checkpoint == 2);
  CHECK(work.restored_step == 0);
}

TEST_CASE("a checkpoint under way is abandoned if a server is lost") {
  Run run({.workers = 1, .servers = 2, .every = 1, .saves = true});
  run.start_both();
  run.done(0, 0, 0);
  CHECK(run.hear(server(1), {MessageType::capture}).header.clock == 1);
  run.peer_down(server(1));
  CHECK(run.logged() ==
        "training with 1 of 1 workers from step 0\n"
        "server/1 is lost\n"
        "warning: no checkpoint of step 1: server/1 is lost\n");
  CHECK(run.coordinator.gathering());
}

TEST_CASE(
    "a slice counts even if it is done during a checkpoint, and new work waits until the servers have copied "
    "their parts") {
  Run run({.workers = 2, .servers = 2, .sync = false, .every = 1, .saves = true});
  run.start_both();
  run.done(0, 0, 0, 1);
  run.hear(server(1), {MessageType::capture});
  run.done(1, 0, 0, 2);
  CHECK(run.coordinator.step() == 2);
  CHECK_FALSE(run.is_told(worker(1), MessageType::work));
  run.captured(1, 1);
  CHECK(Run::content(run.work(0)).progress.loss_sum == 3);
  CHECK(run.work(1).header.clock == 2);
}

TEST_CASE("training continues without a checkpoint if a server does not copy its part within 5 s") {
  Run run({.workers = 1, .servers = 2, .every = 1, .saves = true});
  run.start_both();
  run.done(0, 0, 0);
  run.pass(Milliseconds(5000));
  CHECK(run.coordinator.saving());
  run.pass(Milliseconds(100));
  CHECK_FALSE(run.coordinator.saving());
  CHECK(run.was_logged("warning: no checkpoint of step 1: server/1 has not copied its weights"));
  run.work(0);
}

TEST_CASE("a checkpoint is abandoned if a part is not written within the patience of the run") {
  Run run({.workers = 1, .servers = 2, .every = 1, .saves = true, .patience = 30});
  run.start_both();
  run.done(0, 0, 0);
  run.captured(1, 1);
  run.work(0);
  run.pass(Milliseconds(30000));
  CHECK(run.logged() == "training with 1 of 1 workers from step 0\n");
  run.pass(Milliseconds(100));
  CHECK(run.was_logged("warning: no checkpoint of step 1: server/1 has not written its part"));
  CHECK(run.coordinator.committed() == 0);
}

TEST_CASE("an unfinished run that gets SIGTERM tries only once to write its checkpoint") {
  Run run({.workers = 1, .servers = 2, .saves = true});
  run.start_both();
  run.done(0, 0, 0);
  run.work(0);
  run.stop();
  run.done(0, 1, 0);
  run.tick();
  const auto asked = run.hear(server(1), {MessageType::capture});
  CHECK(asked.header.clock == 2);
  run.captured(1, 2);
  CHECK(run.coordinator.saving());  // until it is written
  const auto capture = decode_capture(asked.header, asked.payload);
  REQUIRE(capture);
  run.written(1, {2, capture->aside, {}, "no space"});
  run.until([&] { return run.coordinator.terminated(); });
  CHECK_FALSE(run.is_told(server(1), MessageType::capture));
}

}  // namespace with_checkpoints
}  // namespace
}  // namespace mlk::rt
