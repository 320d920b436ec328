// Server 0 as the coordinator: who seeds, who works, who is asked to join again, and who reports at the end.
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "kernels/ops.h"
#include "runtime/ps/ps_coordinator.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/scripted_peers.h"

using namespace mlk::rt;
using mlk::test::ScriptedPeers;

namespace {

PeerId worker_at(std::uint32_t rank) { return {Role::worker, rank}; }
PeerId server_at(std::uint32_t rank) { return {Role::server, rank}; }

// Server 0 among workers and servers that the test plays.
struct CoordinatedRun {
  ScriptedPeers others;
  std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();
  ServedModel model;
  ShardCheckpoint part;
  Coordinator coordinator;
  std::uint32_t workers;

  CoordinatedRun(std::uint32_t count, std::uint32_t servers, std::uint64_t steps = 100,
                 const std::string& checkpoints = "", bool sync = true)
      : others(server_at(0), count, servers, checkpoints),
        part(others.job(), 0, model),
        coordinator(configured(steps, sync), others.peers(), model, part, false),
        workers(count) {
    model.tensors = {{"w", {4, 2}, 0, 8}, {"b", {2}, 8, 2}};
    model.chunks = cut_chunks(model.tensors, servers);
    model.shard =
        std::make_unique<ParameterShard>(model.chunks, 0, Optimizer({.lr = 0.1}, steps), count, *ops);
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      others.arrive(worker_at(rank));
      coordinator.worker_up(worker_at(rank));
    }
    for (std::uint32_t rank = 1; rank < servers; ++rank) others.arrive(server_at(rank));
  }
  Job& configured(std::uint64_t steps, bool sync) {
    others.config().steps = steps;
    others.config().consistency.sync = sync;
    return others.job();
  }

  JoinMessage offer(std::uint64_t clock = 0) const {
    JoinMessage join;
    join.clock = clock;
    join.position = 100 * clock;
    join.tensors = model.tensors;
    return join;
  }
  void join(std::uint32_t rank, const JoinMessage& message) {
    coordinator.worker_joined(worker_at(rank), others.incarnation_of(worker_at(rank)), message);
  }
  Event hear(PeerId peer, MessageType type) { return others.hear(peer, {type}); }
  WorkMessage hear_work(std::uint32_t rank) {
    const auto work = decode_work(hear(worker_at(rank), MessageType::work).payload);
    REQUIRE(work);
    return *work;
  }
  // The weights of this server come.
  void seed(std::uint64_t clock = 0) {
    for (const Chunk& chunk : model.chunks) {
      if (chunk.server == 0)
        REQUIRE(model.shard->seed(chunk.id, clock, mlk::kernels::Floats(chunk.size, 1), {}));
    }
    coordinator.own_seeded();
  }
  void ready(std::uint32_t rank) { coordinator.worker_ready(worker_at(rank), {}); }
  void done(std::uint32_t rank, std::uint64_t clock, std::uint32_t slice) {
    ReadyMessage message;
    message.done = true;
    message.clock = clock;
    message.slice = slice;
    coordinator.worker_ready(worker_at(rank), message);
  }
  // Everyone has joined, the model is there, and everyone has work of the first step.
  void start() {
    for (std::uint32_t rank = 0; rank < workers; ++rank) join(rank, offer());
    coordinator.tick();
    seed();
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ready(rank);
      hear_work(rank);
    }
  }
};

}  // namespace

TEST_CASE("a run begins when all have joined: one of them is asked for its weights, then all have work") {
  CoordinatedRun run(2, 1);
  run.join(0, run.offer());
  run.coordinator.tick();
  run.ready(0);
  CHECK_FALSE(run.others.was_told(worker_at(0), MessageType::seed_wanted));
  run.join(1, run.offer());
  run.coordinator.tick();
  CHECK(run.hear(worker_at(0), MessageType::seed_wanted).header.key == 0);
  run.ready(1);
  run.seed();
  const WorkMessage first = run.hear_work(0), second = run.hear_work(1);
  CHECK(first.reports);
  CHECK_FALSE(second.reports);
  CHECK(first.position == 0);
  CHECK(second.position == 4);  // the next batch
  CHECK(first.progress.run.workers == 2);
}

TEST_CASE("a run begins without those who are late, after a grace that late ones do not lengthen") {
  CoordinatedRun run(3, 1);
  run.join(0, run.offer());
  bool second = false;
  run.others.until("has begun", [&] {
    run.coordinator.tick();
    if (!std::exchange(second, true)) run.join(1, run.offer());
    return !run.coordinator.gathering();
  });
  run.seed();
  run.ready(0);
  CHECK(run.hear_work(0).progress.run.workers == 2);
}

TEST_CASE("a server that lost its weights is seeded by the worker that has come furthest") {
  CoordinatedRun run(3, 1);
  JoinMessage ahead = run.offer(7);
  ahead.restarts = 4;
  run.join(0, run.offer(5));
  run.join(1, ahead);
  run.join(2, run.offer(6));
  run.coordinator.tick();
  run.hear(worker_at(1), MessageType::seed_wanted);
  run.seed(7);
  CHECK(run.coordinator.step() == 7);
  run.ready(0);
  const WorkMessage work = run.hear_work(0);
  CHECK(work.position == 700);
  CHECK(work.progress.run.restarts == 5);  // what the workers had heard of, and this loss
}

TEST_CASE(
    "a worker that was given up while its connection lasted is told to join again when it asks for work") {
  CoordinatedRun run(2, 1);
  run.start();
  run.coordinator.peer_down(worker_at(1));
  run.done(1, 0, 1);
  const Event wait = run.hear(worker_at(1), MessageType::wait);
  CHECK(wait.header.flags == flag_rejoin);
  CHECK(run.coordinator.step() == 0);  // what it did counts no more
  run.join(1, run.offer());
  run.ready(1);
  CHECK(run.hear_work(1).progress.run.restarts == 1);
}

TEST_CASE("with sync the slice of a lost worker goes to who is left, and the step is done") {
  CoordinatedRun run(2, 1);
  run.start();
  run.done(0, 0, 0);
  run.coordinator.peer_down(worker_at(1));
  CHECK(run.hear_work(0).position == 4);
  run.done(0, 0, 1);
  CHECK(run.coordinator.step() == 1);
  CHECK(run.hear_work(0).position == 8);
}

TEST_CASE("a reporter that joins again at the end is asked again") {
  CoordinatedRun run(2, 1, 1);
  run.start();
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.done(rank, 0, rank);
  run.hear(worker_at(0), MessageType::trained);
  run.join(0, run.offer(1));
  run.ready(0);
  run.hear(worker_at(0), MessageType::trained);
  CHECK_FALSE(run.coordinator.finished());
}

TEST_CASE(
    "when another server is lost all workers are to join again, and nobody has work until it is seeded") {
  CoordinatedRun run(2, 2);
  run.coordinator.server_joined(1, true, 0, "");
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.join(rank, run.offer());
  run.coordinator.tick();
  const std::uint64_t round = run.hear(server_at(1), MessageType::seed_wanted).header.clock;
  run.coordinator.seeding_opened(1, round);
  run.seed();
  run.ready(0);
  run.coordinator.server_seeded(1, round + 1);  // of no round of ours
  run.ready(1);
  CHECK_FALSE(run.others.was_told(worker_at(0), MessageType::work));
  run.coordinator.server_seeded(1, round);
  run.hear_work(0);
  run.hear_work(1);

  run.coordinator.peer_down(server_at(1));
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    CHECK(run.hear(worker_at(rank), MessageType::wait).header.flags == flag_rejoin);
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.join(rank, run.offer());
  run.ready(0);
  run.coordinator.tick();  // the server is not there
  CHECK_FALSE(run.others.was_told(worker_at(0), MessageType::work));
  run.coordinator.server_joined(1, true, 0, "");
  run.coordinator.tick();
  const std::uint64_t next = run.hear(server_at(1), MessageType::seed_wanted).header.clock;
  CHECK(next != round);
  run.coordinator.seeding_opened(1, next);
  CHECK_FALSE(run.others.was_told(worker_at(0), MessageType::work));
  run.coordinator.server_seeded(1, next);
  CHECK(run.hear_work(0).progress.run.restarts == 1);
}

TEST_CASE("a server that has weights of a round that was broken off counts as empty") {
  CoordinatedRun run(1, 2);
  run.coordinator.server_joined(1, true, 0, "");
  run.join(0, run.offer());
  run.coordinator.tick();
  const std::uint64_t round = run.hear(server_at(1), MessageType::seed_wanted).header.clock;
  run.coordinator.peer_down(server_at(1));
  run.coordinator.server_joined(1, false, round, "");
  run.join(0, run.offer());
  run.coordinator.tick();
  CHECK(run.hear(server_at(1), MessageType::seed_wanted).header.clock != round);
}

TEST_CASE("a worker that asks another server for weights it has left behind has all of them seeded anew") {
  CoordinatedRun run(1, 1);
  run.start();
  run.coordinator.server_ahead(0, 5);  // an old question
  run.done(0, 0, 0);
  run.hear_work(0);
  run.coordinator.server_ahead(0, 1);
  CHECK_FALSE(run.model.shard->complete());
  CHECK(run.hear(worker_at(0), MessageType::wait).header.flags == flag_rejoin);
}

TEST_CASE("after SIGTERM a step of sync is finished, and none begun") {
  CoordinatedRun run(2, 1);
  run.start();
  run.done(0, 0, 0);
  run.coordinator.stop();
  run.coordinator.tick();
  CHECK_FALSE(run.coordinator.terminated());
  run.done(1, 0, 1);
  CHECK(run.coordinator.step() == 1);
  run.ready(0);
  CHECK_FALSE(run.others.was_told(worker_at(0), MessageType::work));
  run.coordinator.tick();
  CHECK(run.coordinator.terminated());
}

TEST_CASE("restarts and lost samples are in the last checkpoint, and who starts from it goes on counting") {
  const mlk::test::TemporaryFolder folder;
  {
    CoordinatedRun run(2, 1, 1, folder.path());
    run.start();
    run.coordinator.peer_down(worker_at(1));
    for (const Chunk& chunk : run.model.chunks) {
      for (const std::uint32_t slice : {0, 1})
        run.model.shard->push_slice(chunk.id, 0, slice, mlk::kernels::Floats(chunk.size, 1), 4);
    }
    run.done(0, 0, 0);
    run.done(0, 0, run.hear(worker_at(0), MessageType::work).header.key);
    run.others.until("is saved", [&] {
      run.coordinator.tick();
      return run.coordinator.committed() == 1;
    });
  }
  CoordinatedRun run(1, 1, 100, folder.path());
  run.join(0, run.offer());
  run.coordinator.tick();
  run.ready(0);
  const WorkMessage work = run.hear_work(0);
  CHECK(work.restored_step == 1);
  CHECK(work.progress.run.restarts == 1);
}

TEST_CASE("samples that the checkpoint and the workers both know to be lost are counted once") {
  const mlk::test::TemporaryFolder folder;
  CoordinatedRun run(1, 1, 100, folder.path(), false);
  Snapshot saved = mlk::test::snapshot_of(mlk::test::state_at(30, 10, 0));
  saved.history = {2, 640};
  REQUIRE(CheckpointStore(folder.path(), 1, run.others.job().log).save(saved, run.model.tensors));
  JoinMessage join = run.offer(20);
  join.restarts = 2;
  join.lost_samples = 640;
  run.join(0, join);
  run.coordinator.tick();
  run.ready(0);
  const WorkMessage work = run.hear_work(0);
  CHECK(work.restored_step == 30);
  CHECK(work.progress.run.restarts == 3);
  CHECK(work.progress.run.lost_samples == 640 + 4);  // the batch that the worker had when the server was lost
}

TEST_CASE(
    "a run that starts from the checkpoint of its last step asks for the report, and for no further step") {
  const mlk::test::TemporaryFolder folder;
  CoordinatedRun run(1, 1, 30, folder.path());
  const Snapshot saved = mlk::test::snapshot_of(mlk::test::state_at(30, 10, 0));
  REQUIRE(CheckpointStore(folder.path(), 1, run.others.job().log).save(saved, run.model.tensors));
  run.join(0, run.offer());
  run.coordinator.tick();
  run.ready(0);
  CHECK(run.others.hear(worker_at(0), {MessageType::trained, MessageType::work}).header.type ==
        MessageType::trained);
}
