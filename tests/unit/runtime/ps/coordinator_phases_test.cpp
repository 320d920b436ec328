// What server 0 counts, sends and logs in each phase of a run, and what it reports to its workers.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/runtime/coordinator_run.h"

TEST_SUITE_BEGIN("runtime/ps/coordinator_phases");

namespace mlk::rt {
namespace {
namespace in_phases {

using phases::Run;
using phases::server;
using phases::worker;

TEST_CASE(
    "a worker without work gets a wait message every 2 s, which says whether processes are still missing") {
  Run run({});
  run.join(0);
  run.ready(0);
  run.tick();
  const Header early = run.hear(worker(0), {MessageType::wait}).header;
  CHECK(early.flags == 0);
  CHECK(early.clock == 0);
  CHECK(early.generation == 1);
  run.pass(Milliseconds(1900));
  CHECK_FALSE(run.is_told(worker(0), MessageType::wait));
  run.pass(Milliseconds(100));
  CHECK(run.is_told(worker(0), MessageType::wait));

  Run later({});
  for (std::uint32_t rank = 0; rank < 2; ++rank) later.join(rank);
  later.ready(0);
  later.tick();
  const Header wait = later.hear(worker(0), {MessageType::wait}).header;
  CHECK(wait.flags == flag_running);
  CHECK(wait.generation == 2);
  later.tick();
  CHECK_FALSE(later.is_told(worker(0), MessageType::wait));
}

TEST_CASE(
    "with sync, each worker gets its slice and position, and the reporting rank also gets the loss since the "
    "last report") {
  Run run({});
  run.start();
  CHECK(run.logged() == "training with 2 of 2 workers from step 0\n");
  run.done(1, 0, 1, 1.5);
  CHECK_FALSE(run.is_told(worker(1), MessageType::work));
  run.coordinator.applied(9);
  run.done(0, 0, 0, 2.5);
  for (const std::uint32_t rank : {0u, 1u}) {
    const auto given = run.work(rank);
    CHECK(given.header.clock == 1);
    CHECK(given.header.key == rank);
    CHECK(given.header.generation == 2);
    const WorkMessage work = Run::content(given);
    CHECK(work.position == 8 + 4 * rank);
    CHECK(work.samples == 4);
    CHECK(work.run_position == 8);
    CHECK(work.restored_step == 0);
    CHECK(work.checkpoint == 0);
    CHECK(work.reports == (rank == 0));
    CHECK(work.progress.loss_sum == (rank == 0 ? 4 : 0));
    CHECK(work.progress.loss_count == (rank == 0 ? 2 : 0));
    CHECK(work.progress.staleness.count == (rank == 0 ? 1 : 0));
    CHECK(work.progress.staleness.sum == (rank == 0 ? 9 : 0));
    CHECK(work.progress.run.workers == 2);
    CHECK(work.progress.run.generation == 2);
    CHECK(work.progress.run.restarts == 0);
    CHECK_FALSE(work.progress.run.slowest);
  }
  run.worker_ready(worker(0), {});  // the worker asks again, without a finished slice
  CHECK(Run::content(run.work(0)).progress.loss_count == 0);
}

TEST_CASE("the reporting rank gets the name of a clearly slower worker, until that worker is lost") {
  Run run({});
  run.start();
  std::optional<std::uint32_t> slowest;
  for (std::uint64_t step = 0; step < 2; ++step) {
    run.done(0, step, 0, 0, 1);
    run.done(1, step, 1, 0, 10);
    slowest = Run::content(run.work(0)).progress.run.slowest;
    CHECK_FALSE(Run::content(run.work(1)).progress.run.slowest);
  }
  CHECK(slowest == 1);
  run.peer_down(worker(1));
  run.done(0, 2, 0, 0, 1);
  CHECK_FALSE(Run::content(run.work(0)).progress.run.slowest);
}

TEST_CASE(
    "if the staleness is bounded, server 0 reports the staleness that workers measure, otherwise that of its "
    "updates") {
  for (const bool bounded : {true, false}) {
    CAPTURE(bounded);
    Run run({.workers = 1, .sync = false, .staleness = bounded ? std::optional(2) : std::nullopt});
    run.start();
    run.coordinator.applied(5);
    run.coordinator.applied(6);
    run.done(0, 0, 0, 0, 0, 3);
    const WorkMessage work = Run::content(run.work(0));
    CHECK(work.progress.staleness.sum == (bounded ? 3 : 11));
    CHECK(work.progress.staleness.most == (bounded ? 3 : 6));
    CHECK(work.progress.staleness.count == (bounded ? 1 : 2));
    CHECK(work.own_slices == 1);
    CHECK(work.others_slices == 2);
    CHECK(work.position == 4);
    CHECK(work.run_position == 4);
  }
}

TEST_CASE("a worker that is lost or joins later is logged and counted, and changes the generation") {
  Run run({.workers = 3});
  run.start();
  run.join(1);  // the same process joins again
  CHECK(run.logged() == "training with 3 of 3 workers from step 0\n");
  run.peer_down(worker(1));
  CHECK(run.was_logged("worker/1 is lost, 2 go on"));
  run.peer_down(worker(1));  // server 0 knows that already
  run.join(0);               // worker 0 is still a member
  run.ready(0);
  const WorkMessage alone = Run::content(run.work(0));
  CHECK(alone.progress.run.workers == 2);
  CHECK(alone.progress.run.generation == 4);
  CHECK(alone.progress.run.restarts == 1);
  run.arrive(worker(1));
  run.join(1);
  CHECK(run.was_logged("worker/1 has joined"));
  run.ready(1);
  const auto given = run.work(1);
  CHECK(given.header.generation == 5);
  CHECK(Run::content(given).progress.run.workers == 3);
  // Another incarnation takes the place of worker 2 before server 0 has noticed the end of the first.
  run.arrive(worker(2));
  run.join(2);
  run.ready(2);
  CHECK(run.work(2).header.generation == 6);
  run.peer_down(worker(2));
  run.ready(0);
  CHECK(run.work(0).header.generation == 7);
}

TEST_CASE(
    "a worker or server that is lost before the training begins is logged, and is not counted as a restart") {
  Run run({.workers = 2, .servers = 2});
  run.peer_down(server(1));  // the server was never there
  CHECK(run.logged().empty());
  run.server_joined(1, true, 0);
  run.join(0);
  run.join(1);
  run.peer_down(worker(1));
  run.peer_down(server(1));
  CHECK(run.logged() == "worker/1 is lost, 1 go on\nserver/1 is lost\n");
  CHECK(run.hear(worker(0), {MessageType::wait}).header.flags == flag_rejoin);
  run.server_joined(1, true, 0);
  run.join(0);
  run.join(1);
  run.tick();
  run.seed_other();
  run.seed();
  run.ready(1);
  CHECK(Run::content(run.work(1)).progress.run.restarts == 0);
  run.peer_down(server(1));
  CHECK(run.coordinator.gathering());
  CHECK(run.hear(worker(1), {MessageType::wait}).header.flags == flag_rejoin);
  run.server_joined(1, true, 0);
  run.join(0);
  run.join(1);
  run.tick();
  run.seed_other();
  run.ready(1);
  CHECK(Run::content(run.work(1)).progress.run.restarts == 1);
}

TEST_CASE("server 0 gathers the workers again if the seeding worker is lost or joins again") {
  for (const bool joins : {false, true}) {
    for (const std::uint32_t rank : {0u, 1u}) {
      CAPTURE(joins);
      CAPTURE(rank);
      Run run({});
      for (std::uint32_t each = 0; each < 2; ++each) run.join(each);
      run.tick();
      REQUIRE_FALSE(run.coordinator.gathering());
      if (joins) {
        run.join(rank);
      } else {
        run.peer_down(worker(rank));
      }
      CHECK(run.coordinator.gathering() == (rank == 0));
      CHECK(run.is_told(worker(1), MessageType::wait) == (rank == 0));
      CHECK_FALSE(run.is_told(worker(0), MessageType::wait));
      if (joins) CHECK(run.logged().empty());
    }
  }
}

TEST_CASE("all workers must join again if a server joins without weights") {
  Run run({.workers = 1, .servers = 2});
  run.start_both();
  run.server_joined(1, false, 0);
  CHECK_FALSE(run.coordinator.gathering());
  run.server_joined(1, true, 0);
  CHECK(run.coordinator.gathering());
  CHECK(run.hear(worker(0), {MessageType::wait}).header.flags == flag_rejoin);
  run.join(0, 0);
  run.tick();
  CHECK_FALSE(run.coordinator.gathering());
  run.server_joined(1, true, 0);  // its weights are under way
  CHECK_FALSE(run.coordinator.gathering());
}

TEST_CASE("a server is seeded again if it reports that it lacks the weights of the current step") {
  Run run({.workers = 1, .servers = 2});
  run.start_both();
  run.done(0, 0, 0);
  run.work(0);
  const std::string before = run.logged();
  run.server_without(1, 0);
  run.server_without(1, 2);
  CHECK_FALSE(run.coordinator.gathering());
  CHECK(run.logged() == before);
  run.server_without(1, 1);
  CHECK(run.coordinator.gathering());
  CHECK(run.logged() == before + "server/1 has no weights of step 1\n");
  run.server_without(1, 1);  // server 0 knows that already
  CHECK(run.logged() == before + "server/1 has no weights of step 1\n");
  CHECK(run.coordinator.has_weights());
  run.join(0, 1);
  run.tick();
  run.seed_other();
  run.ready(0);
  CHECK(run.work(0).header.clock == 1);
}

TEST_CASE("servers with weights are seeded again if the seeding worker has made offline steps") {
  for (const std::uint64_t offline : {0, 3}) {
    CAPTURE(offline);
    Run run({.workers = 1, .servers = 2});
    run.start_both();
    run.done(0, 0, 0);
    run.work(0);
    run.peer_down(server(1));
    run.server_joined(1, true, 0);
    JoinMessage joining = run.offer(1 + offline);
    joining.offline = offline;
    run.join(0, joining);
    run.tick();
    CHECK(run.coordinator.has_weights() == (offline == 0));
    run.seed_other();
    run.ready(0);
    CHECK(run.is_told(worker(0), MessageType::work) == (offline == 0));  // offline steps: no seeds yet
    if (offline > 0) run.seed();
    if (offline > 0) CHECK(run.work(0).header.clock == 4);
  }
}

TEST_CASE("the lowest rank is asked once for the last report, and an early report is ignored") {
  Run run({.steps = 1});
  run.start();
  CHECK(run.coordinator.result().empty());
  const Bytes report(3, std::byte{7});
  run.coordinator.worker_reported(report);
  CHECK_FALSE(run.coordinator.finished());
  run.done(1, 0, 1, 3);
  run.done(0, 0, 0, 1);
  const auto asked = run.hear(worker(0), {MessageType::trained});
  CHECK(asked.header.clock == 1);
  CHECK(asked.header.generation == 2);
  const auto trained = decode_trained(asked.payload);
  REQUIRE(trained);
  CHECK(trained->run_position == 8);
  CHECK(trained->checkpoint == 0);
  CHECK(trained->progress.loss_sum == 4);
  CHECK(trained->progress.loss_count == 2);
  CHECK(trained->progress.run.workers == 2);
  run.ready(0);
  run.ready(1);
  for (const std::uint32_t rank : {0u, 1u}) CHECK_FALSE(run.is_told(worker(rank), MessageType::trained));
  run.coordinator.worker_reported(report);
  CHECK(run.coordinator.finished());
  CHECK(run.coordinator.result() == report);
  // From here on the end of a peer is not logged.
  const std::string before = run.logged();
  run.peer_down(worker(0));
  run.stop();
  run.tick();
  CHECK(run.coordinator.finished());
  CHECK(run.logged() == before);
  CHECK_FALSE(run.is_told(worker(1), MessageType::trained));
}

TEST_CASE("a server that is lost after the last report does not stop the run") {
  Run run({.workers = 1, .servers = 2, .steps = 1});
  run.start_both();
  run.done(0, 0, 0);
  run.hear(worker(0), {MessageType::trained});
  run.coordinator.worker_reported({});
  run.peer_down(server(1));
  CHECK(run.coordinator.finished());
}

TEST_CASE("a slice is not counted if a worker reports it before the servers have weights") {
  Run run({});
  for (const std::uint32_t rank : {0u, 1u}) run.join(rank);
  run.tick();
  run.worker_ready(worker(0), {true, 0, 0, 5, 1, 1});
  run.seed();
  CHECK(Run::content(run.work(0)).progress.loss_count == 0);
}

TEST_CASE(
    "if a worker is cut off from a server, the worker counts as lost, and still gets the request to join "
    "again") {
  Run run({.workers = 2, .servers = 2});
  run.start_both();
  run.worker_cut_off(worker(1));
  CHECK(run.was_logged("worker/1 is lost, 1 go on"));
  run.peer_down(server(1));
  for (const std::uint32_t rank : {0u, 1u})
    CHECK(run.hear(worker(rank), {MessageType::wait}).header.flags == flag_rejoin);
}

TEST_CASE("a worker that joins again loses its lease, and gets new work only after a ready message") {
  Run run({});
  run.start();
  run.done(0, 0, 0);  // worker 0 waits for worker 1
  run.join(0);
  run.done(1, 0, 1);
  CHECK(run.work(1).header.clock == 1);
  CHECK_FALSE(run.is_told(worker(0), MessageType::work));
  run.join(1);
  run.ready(0);
  CHECK(run.work(0).header.key == 0);  // the slice that worker 1 had is open again
  run.done(0, 1, 0);
  CHECK(run.work(0).header.key == 1);
}

TEST_CASE("server 0 also asks a lower rank for the report if this rank comes back at the end") {
  Run run({.steps = 1});
  run.start();
  run.done(0, 0, 0);
  run.done(1, 0, 1);
  run.hear(worker(0), {MessageType::trained});
  run.peer_down(worker(0));
  run.hear(worker(1), {MessageType::trained});
  run.join(0);
  run.ready(0);
  run.hear(worker(0), {MessageType::trained});
  run.join(0);  // worker 0 may have missed the request
  run.ready(0);
  run.hear(worker(0), {MessageType::trained});
  CHECK_FALSE(run.coordinator.finished());
}

TEST_CASE("all workers must join again if a worker asks for a step that server 0 has passed") {
  Run run({.workers = 1});
  run.start();
  run.done(0, 0, 0);
  run.work(0);
  run.server_without(0, 1);
  CHECK(run.was_logged("server/0 has no weights of step 1"));
  CHECK_FALSE(run.coordinator.has_weights());
  CHECK(run.coordinator.gathering());
}

TEST_CASE("with sync, a run ends 3 s after SIGTERM if the worker of the current step never answers") {
  Run run({.workers = 1});
  run.start();
  run.stop();
  run.pass(Milliseconds(3000));
  CHECK_FALSE(run.coordinator.terminated());
  run.pass(Milliseconds(100));
  CHECK(run.coordinator.terminated());
}

TEST_CASE("after SIGTERM, a run ends as soon as no step is under way") {
  SUBCASE("while the run is gathered") {
    Run run({});
    run.stop();
    CHECK_FALSE(run.coordinator.terminated());
    run.tick();
    CHECK(run.coordinator.terminated());
  }
  SUBCASE("with async, when the workers have reported their slices") {
    Run run({.sync = false});
    run.start();
    run.stop();
    run.ready(1);
    CHECK_FALSE(run.is_told(worker(1), MessageType::work));
    run.done(0, 0, 0);
    CHECK_FALSE(run.is_told(worker(0), MessageType::work));
    run.tick();
    CHECK(run.coordinator.terminated());
    CHECK_FALSE(run.coordinator.saving());
  }
  SUBCASE("with sync, when all workers are lost, and the log does not mention them") {
    Run run({});
    run.start();
    run.done(0, 0, 0);
    run.stop();
    run.tick();
    CHECK_FALSE(run.coordinator.terminated());
    run.peer_down(worker(1));
    CHECK(run.work(0).header.key == 1);  // the open slice of the current step, which has to be finished
    run.tick();
    CHECK_FALSE(run.coordinator.terminated());
    run.peer_down(worker(0));
    run.tick();
    CHECK(run.coordinator.terminated());
    CHECK(run.logged() == "training with 2 of 2 workers from step 0\n");
    run.peer_down(server(0));
    run.tick();
    CHECK(run.coordinator.terminated());
  }
  SUBCASE("while server 0 waits for the last report") {
    Run run({.workers = 1, .steps = 1});
    run.start();
    run.done(0, 0, 0);
    run.stop();
    run.tick();
    CHECK(run.coordinator.terminated());
  }
}

}  // namespace in_phases
}  // namespace
}  // namespace mlk::rt
