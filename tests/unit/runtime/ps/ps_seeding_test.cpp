// Rounds of seeds, without the coordinator.
#include "runtime/ps/ps_seeding.h"

#include <doctest/doctest.h>

#include "tests/unit/runtime/scripted_peers.h"

using namespace mlk::rt;
using mlk::test::ScriptedPeers;

namespace {

// Server 0 with one worker and another server.
struct Rounds {
  static constexpr PeerId worker{Role::worker, 0}, server{Role::server, 1};
  ScriptedPeers others{{Role::server, 0}, 1, 2};
  std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();
  ServedModel model;
  Seeding seeding{others.peers(), model};

  Rounds() {
    model.tensors = {{"w", {4}, 0, 4}, {"b", {2}, 4, 2}};
    model.chunks = cut_chunks(model.tensors, 2);
    model.shard = std::make_unique<ParameterShard>(model.chunks, 0, Optimizer({.lr = 0.1}, 100), 1, *ops);
    others.arrive(worker);
    others.arrive(server);
  }
  // Opens a round at the other server. Returns its number.
  std::uint64_t open() {
    seeding.open({1});
    const Header header = others.hear(server, {MessageType::seed_wanted}).header;
    CHECK(header.key == 1);
    return header.clock;
  }
};

}  // namespace

TEST_CASE("a round is done when the server says that it has the weights of this round") {
  Rounds run;
  const std::uint64_t round = run.open();
  CHECK(run.seeding.contains(1));
  CHECK_FALSE(run.seeding.seeded(1, round - 1));
  CHECK_FALSE(run.seeding.seeded(1, round + 1));
  CHECK_FALSE(run.seeding.done());
  CHECK(run.seeding.seeded(1, round));
  CHECK(run.seeding.done());
  CHECK_FALSE(run.seeding.seeded(1, round));  // once is enough
}

TEST_CASE("the worker is asked for the weights of a server when that server has opened the round") {
  Rounds run;
  const std::uint64_t round = run.open();
  run.seeding.from_worker(0);
  CHECK(run.seeding.by(0));
  CHECK_FALSE(run.others.was_told(Rounds::worker, MessageType::seed_wanted));
  run.seeding.opened(1, round - 1);
  CHECK_FALSE(run.others.was_told(Rounds::worker, MessageType::seed_wanted));
  run.seeding.opened(1, round);
  const Header asked = run.others.hear(Rounds::worker, {MessageType::seed_wanted}).header;
  CHECK(asked.key == 1);
  CHECK(asked.clock == round);
}

TEST_CASE("what came in a round that was given up is known by the number of that round, and by no other") {
  Rounds run;
  const std::uint64_t broken = run.open();
  CHECK(run.seeding.give_up() == std::set<std::uint32_t>{1});
  CHECK(run.seeding.give_up().empty());
  const std::uint64_t next = run.open();
  CHECK(next != broken);
  CHECK(run.seeding.broke_off(broken));
  CHECK_FALSE(run.seeding.broke_off(next));
  CHECK(run.seeding.seeded(1, next));
  CHECK(run.seeding.give_up().empty());
  CHECK_FALSE(run.seeding.broke_off(next));
}

TEST_CASE("a round that is given up at this server leaves none open here") {
  Rounds run;
  run.seeding.open({0});
  CHECK(run.model.seed_round != 0);
  run.seeding.give_up();
  CHECK(run.model.seed_round == 0);
}
