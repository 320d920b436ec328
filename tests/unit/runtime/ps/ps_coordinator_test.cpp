#include "runtime/ps/ps_coordinator.h"

#include <memory>

#include <doctest/doctest.h>

#include "tests/unit/runtime/scripted_peers.h"

using namespace mlk::rt;
using namespace mlk::test;

namespace {

constexpr PeerId first_server{Role::server, 0};

PeerId worker(std::uint32_t rank) { return {Role::worker, rank}; }

// Server 0 of a run with asynchronous workers, which has all weights.
struct Stage {
  ScriptedPeers others;
  std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_cpu_ops(1);
  ServedModel model;
  ShardCheckpoint part{others.job(), 0, model};
  std::unique_ptr<Coordinator> coordinator;

  Stage(std::uint32_t workers, std::uint64_t steps) : others(first_server, workers, 1) {
    others.config().steps = steps;
    others.config().consistency.sync = false;
    model.tensors = {{"w", {4}, 0, 4}};
    model.chunks = cut_chunks(model.tensors, 1);
    model.shard = std::make_unique<ParameterShard>(
        model.chunks, 0, Optimizer(others.config().optimizer, steps), workers, *ops);
    const std::vector<float> weights(4, 1.0f);
    for (const Chunk& chunk : model.chunks) REQUIRE(model.shard->seed(chunk.id, 0, weights, {}));
    coordinator = std::make_unique<Coordinator>(others.job(), others.peers(), model, part, false);
    others.on_event([this](Event&& event) {
      if (event.kind == Event::Kind::up) coordinator->worker_up(event.peer);
      if (event.kind == Event::Kind::down) coordinator->peer_down(event.peer);
    });
    for (std::uint32_t rank = 0; rank < workers; ++rank) others.arrive(worker(rank));
    for (std::uint32_t rank = 0; rank < workers; ++rank) join(rank);
    coordinator->tick();
    REQUIRE_FALSE(coordinator->gathering());
  }

  void join(std::uint32_t rank) {
    JoinMessage message;
    message.tensors = model.tensors;
    coordinator->worker_joined(worker(rank), others.incarnation_of(worker(rank)), message);
  }

  // The worker makes one step.
  void work(std::uint32_t rank) {
    coordinator->worker_ready(worker(rank), {});
    const Header given = others.hear(worker(rank), {MessageType::work}).header;
    ReadyMessage ready;
    ready.done = true;
    ready.clock = given.clock;
    ready.slice = given.key;
    coordinator->worker_ready(worker(rank), ready);
  }
};

}  // namespace

TEST_CASE("when the rank that is to report is lost at the end, the next one is asked") {
  Stage stage(3, 1);
  stage.work(0);
  stage.others.hear(worker(0), {MessageType::trained});
  stage.others.depart(worker(0));  // for good
  stage.others.hear(worker(1), {MessageType::trained});
  stage.others.depart(worker(1));
  stage.others.hear(worker(2), {MessageType::trained});
  CHECK_FALSE(stage.coordinator->finished());
  stage.coordinator->worker_reported({});
  CHECK(stage.coordinator->finished());
}

TEST_CASE("a worker that was given up while its connection held is asked to join again") {
  Stage stage(2, 100);
  stage.coordinator->peer_down(worker(1));  // it was silent, which it does not know
  stage.coordinator->worker_ready(worker(1), {});
  const Event wait = stage.others.hear(worker(1), {MessageType::wait, MessageType::work});
  CHECK(wait.header.type == MessageType::wait);
  CHECK((wait.header.flags & flag_rejoin) != 0);
  stage.join(1);
  stage.coordinator->worker_ready(worker(1), {});
  stage.others.hear(worker(1), {MessageType::work});
}
