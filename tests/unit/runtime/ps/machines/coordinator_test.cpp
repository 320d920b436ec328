// Server 0 as the coordinator: which worker seeds, gets work, has to join again, and reports at the end.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/runtime/coordinator_run.h"

TEST_SUITE_BEGIN("runtime/ps/machines/coordinator");

using namespace mlk::rt;

namespace {

using mlk::rt::phases::Run;

PeerId worker_at(std::uint32_t rank) { return {Role::worker, rank}; }
PeerId server_at(std::uint32_t rank) { return {Role::server, rank}; }

}  // namespace

TEST_CASE("a run begins when all workers have joined: one seeds the servers, then all get work") {
  Run run({.workers = 2});
  run.join(0, run.offer());
  run.tick();
  run.ready(0);
  CHECK_FALSE(run.is_told(worker_at(0), MessageType::seed_wanted));
  run.join(1, run.offer());
  run.tick();
  CHECK(run.hear(worker_at(0), {MessageType::seed_wanted}).header.key == 0);
  run.ready(1);
  run.seed();
  const WorkMessage first = run.hear_work(0), second = run.hear_work(1);
  CHECK(first.reports);
  CHECK_FALSE(second.reports);
  CHECK(first.position == 0);
  CHECK(second.position == 4);  // the next batch
  CHECK(first.progress.run.workers == 2);
}

TEST_CASE("3 s after the first worker has joined, a run begins without the workers that are late") {
  Run run({.workers = 3});
  run.join(0);
  run.tick();
  run.pass(Milliseconds(2000));
  run.join(1);
  CHECK(run.until([&] { return !run.coordinator.gathering(); }) == Milliseconds(1000));
  run.seed();
  run.ready(0);
  CHECK(run.hear_work(0).progress.run.workers == 2);
}

TEST_CASE("a server without weights is seeded by the worker with the highest step") {
  Run run({.workers = 3});
  JoinMessage ahead = run.offer(7);
  ahead.restarts = 4;
  run.join(0, run.offer(5));
  run.join(1, ahead);
  run.join(2, run.offer(6));
  run.tick();
  run.hear(worker_at(1), {MessageType::seed_wanted});
  run.seed();
  CHECK(run.coordinator.step() == 7);
  run.ready(0);
  const WorkMessage work = run.hear_work(0);
  CHECK(work.position == 700);
  CHECK(work.progress.run.restarts == 5);  // the restarts in the workers' join messages, plus this one
}

TEST_CASE("a connected worker that counts as lost must join again when it asks for work") {
  Run run({.workers = 2});
  run.start();
  run.peer_down(worker_at(1));
  run.done(1, 0, 1);
  const auto wait = run.hear(worker_at(1), {MessageType::wait});
  CHECK(wait.header.flags == flag_rejoin);
  CHECK(run.coordinator.step() == 0);  // its slice no longer counts
  run.join(1, run.offer());
  run.ready(1);
  CHECK(run.hear_work(1).progress.run.restarts == 1);
}

TEST_CASE("with sync, a remaining worker gets the slice of a lost worker, and the step is done") {
  Run run({.workers = 2});
  run.start();
  run.done(0, 0, 0);
  run.peer_down(worker_at(1));
  CHECK(run.hear_work(0).position == 4);
  run.done(0, 0, 1);
  CHECK(run.coordinator.step() == 1);
  CHECK(run.hear_work(0).position == 8);
}

TEST_CASE("a reporter that joins again at the end is asked for the report again") {
  Run run({.workers = 2, .steps = 1});
  run.start();
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.done(rank, 0, rank);
  run.hear(worker_at(0), {MessageType::trained});
  run.join(0, run.offer(1));
  run.ready(0);
  run.hear(worker_at(0), {MessageType::trained});
  CHECK_FALSE(run.coordinator.finished());
}

TEST_CASE(
    "when server 1 is lost, all workers must join again, and get no work until its successor is seeded") {
  Run run({.workers = 2, .servers = 2});
  run.server_joined(1, true, 0);
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.join(rank, run.offer());
  run.tick();
  const std::uint64_t round = run.hear(server_at(1), {MessageType::seed_wanted}).header.clock;
  run.seeding_opened(1, round);
  run.seed();
  run.ready(0);
  run.server_seeded(1, round + 1);  // the message names another round
  run.ready(1);
  CHECK_FALSE(run.is_told(worker_at(0), MessageType::work));
  run.server_seeded(1, round);
  run.hear_work(0);
  run.hear_work(1);

  run.peer_down(server_at(1));
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    CHECK(run.hear(worker_at(rank), {MessageType::wait}).header.flags == flag_rejoin);
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.join(rank, run.offer());
  run.ready(0);
  run.tick();  // the server is not there yet
  CHECK_FALSE(run.is_told(worker_at(0), MessageType::work));
  run.server_joined(1, true, 0);
  run.tick();
  const std::uint64_t next = run.hear(server_at(1), {MessageType::seed_wanted}).header.clock;
  CHECK(next != round);
  run.seeding_opened(1, next);
  CHECK_FALSE(run.is_told(worker_at(0), MessageType::work));
  run.server_seeded(1, next);
  CHECK(run.hear_work(0).progress.run.restarts == 1);
}

TEST_CASE("a server counts as empty if its weights come from an abandoned round") {
  Run run({.workers = 1, .servers = 2});
  const auto gather = [&](bool empty, std::uint64_t round) {
    run.server_joined(1, empty, round);
    run.join(0, run.offer());
    run.tick();
  };
  const auto opened = [&] { return run.hear(server_at(1), {MessageType::seed_wanted}).header.clock; };
  gather(true, 0);
  const std::uint64_t first = opened();
  run.seed();
  run.server_seeded(1, first);
  run.peer_down(server_at(1));
  gather(true, 0);  // server 0 still has its weights
  const std::uint64_t broken_off = opened();
  run.peer_down(server_at(1));
  gather(false, broken_off);
  CHECK(opened() > broken_off);
}

TEST_CASE("all workers must join again if a worker asks for weights of a step that server 0 has passed") {
  Run run({.workers = 1});
  run.start();
  run.server_without(0, 5);  // an outdated request
  run.done(0, 0, 0);
  run.hear_work(0);
  run.server_without(0, 1);
  CHECK_FALSE(run.coordinator.has_weights());
  CHECK(run.hear(worker_at(0), {MessageType::wait}).header.flags == flag_rejoin);
}

TEST_CASE("with sync, the current step is finished after SIGTERM, and no further step begins") {
  Run run({.workers = 2});
  run.start();
  run.done(0, 0, 0);
  run.stop();
  run.tick();
  CHECK_FALSE(run.coordinator.terminated());
  run.done(1, 0, 1);
  CHECK(run.coordinator.step() == 1);
  run.ready(0);
  CHECK_FALSE(run.is_told(worker_at(0), MessageType::work));
  run.tick();
  CHECK(run.coordinator.terminated());
}

TEST_CASE(
    "the last checkpoint stores the number of restarts, and a run from this checkpoint continues the count") {
  Run first({.steps = 1, .saves = true});
  first.start();
  first.peer_down(worker_at(1));
  first.done(0, 0, 0);
  first.done(0, 0, first.work(0).header.key);
  first.until([&] { return first.coordinator.committed() == 1; });
  REQUIRE(first.saved);
  CHECK(first.saved->step == 1);
  CHECK(first.saved->position == 8);
  Run run({.workers = 1, .saves = true});
  run.saved = first.saved;
  run.join(0);
  run.tick();
  run.ready(0);
  const WorkMessage work = run.hear_work(0);
  CHECK(work.restored_step == 1);
  CHECK(work.position == 8);
  CHECK(work.checkpoint == 1);
  CHECK(work.progress.run.restarts == 1);
}

TEST_CASE("lost samples that both the checkpoint and a worker report are counted once") {
  Run run({.workers = 1, .sync = false, .saves = true});
  run.saved = {30, 1920, {2, 640}, {}};
  JoinMessage join = run.offer(20);
  join.restarts = 2;
  join.lost_samples = 640;
  run.join(0, join);
  run.tick();
  run.ready(0);
  const WorkMessage work = run.hear_work(0);
  CHECK(work.restored_step == 30);
  CHECK(work.progress.run.restarts == 3);
  CHECK(work.progress.run.lost_samples == 640 + 4);  // the batch that the worker had when the server was lost
}

TEST_CASE(
    "if a run starts from the checkpoint of its last step, it asks for the report, and for no further step") {
  Run run({.workers = 1, .steps = 30, .saves = true});
  run.saved = {30, 1920, {}, {}};
  run.join(0);
  run.tick();
  run.ready(0);
  CHECK(run.hear(worker_at(0), {MessageType::trained, MessageType::work}).header.type ==
        MessageType::trained);
}

TEST_CASE("an unreadable checkpoint ends the run, or causes only a warning if a worker has trained weights") {
  const Failure why(ExitCode::checkpoint_unusable, "no checkpoint can be used: it is cut off");
  Run without({.workers = 1, .saves = true});
  without.unusable = why;
  without.join(0);
  without.tick();
  REQUIRE(without.failure);
  CHECK(without.failure->code == ExitCode::checkpoint_unusable);

  Run run({.workers = 1, .saves = true});
  run.unusable = why;
  run.join(0, 5);
  run.tick();
  CHECK_FALSE(run.failure);
  CHECK(run.was_logged(
      "warning: goes on with the weights of a worker: no checkpoint can be used: it is cut off"));
  run.hear(worker_at(0), {MessageType::seed_wanted});
}

TEST_CASE(
    "a checkpoint of another optimizer ends the run if no worker has reached the step of the checkpoint") {
  const Failure misfit(ExitCode::checkpoint_unusable, "it was made with another optimizer");
  Run run({.workers = 1, .saves = true});
  run.saved = {30, 1920, {}, misfit};
  run.join(0, 29);
  run.tick();
  REQUIRE(run.failure);
  CHECK(std::string(run.failure->what()) == misfit.what());
  CHECK_FALSE(run.is_told(worker_at(0), MessageType::seed_wanted));

  Run further({.workers = 1, .saves = true});
  further.saved = {30, 1920, {}, misfit};
  further.join(0, 30);
  further.tick();
  CHECK_FALSE(further.failure);
  further.hear(worker_at(0), {MessageType::seed_wanted});
}

TEST_CASE("server 0 abandons a round of seeds that takes too long, and gathers the workers again") {
  Run run({.workers = 1});
  run.join(0);
  run.tick();
  CHECK_FALSE(run.coordinator.gathering());
  run.pass(Milliseconds(20000));
  CHECK_FALSE(run.coordinator.gathering());
  run.pass(Milliseconds(200));
  CHECK(run.coordinator.gathering());
  CHECK(run.hear(worker_at(0), {MessageType::wait}).header.flags == flag_rejoin);
}

TEST_CASE(
    "server 0 gives up after the patience if processes are missing at the start, and logs their names") {
  Run run({.workers = 2, .servers = 2, .patience = 30});
  run.join(0);
  run.pass(Milliseconds(30000));
  CHECK_FALSE(run.failure);
  CHECK(run.was_logged("waiting for worker 1, server 1 (2 s)"));
  CHECK(run.was_logged("waiting for worker 1, server 1 (22 s)"));
  run.pass(Milliseconds(100));
  REQUIRE(run.failure);
  CHECK(run.failure->code == ExitCode::peers_lost);
  CHECK(std::string(run.failure->what()) == "gave up waiting for worker 1, server 1 (30 s)");
}

TEST_CASE("the next rank is asked for the report if the rank that has to report is lost at the end") {
  Run run({.workers = 3, .steps = 1, .sync = false});
  for (std::uint32_t rank = 0; rank < 3; ++rank) run.join(rank);
  run.tick();
  run.seed();
  run.ready(0);
  const Header given = run.work(0).header;
  run.done(0, given.clock, given.key);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    run.hear(worker_at(rank), {MessageType::trained});
    run.peer_down(worker_at(rank));
  }
  run.hear(worker_at(2), {MessageType::trained});
  CHECK_FALSE(run.coordinator.finished());
  run.coordinator.worker_reported({});
  CHECK(run.coordinator.finished());
}

TEST_CASE("with async, too, a connected worker that counts as lost must join again before it gets work") {
  Run run({.workers = 2, .sync = false});
  run.start();
  run.peer_down(worker_at(1));  // it was silent, and does not know that it counts as lost
  run.ready(1);
  const auto wait = run.hear(worker_at(1), {MessageType::wait, MessageType::work});
  CHECK(wait.header.type == MessageType::wait);
  CHECK((wait.header.flags & flag_rejoin) != 0);
  run.join(1);
  run.ready(1);
  run.work(1);
}

TEST_CASE("a worker that has not joined again after the loss of a server does not block others") {
  Run run({.workers = 2, .servers = 2, .sync = false, .staleness = 0});
  run.start_both();
  run.peer_down(server_at(1));
  run.server_joined(1, true, 0);
  run.join(0, run.offer(0));  // worker 1 is still connected, but silent
  run.until([&] { return !run.coordinator.gathering(); });
  run.seed_other();
  run.ready(0);
  run.hear_work(0);
  run.done(0, run.coordinator.step(), 0);
  run.hear_work(0);  // if worker 1 counted, the bound would make worker 0 wait
}
