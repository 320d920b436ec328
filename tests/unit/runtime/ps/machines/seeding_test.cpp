// Rounds of seeds, without the coordinator.
#include "runtime/ps/machines/seeding.h"

#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/ps/machines/seeding");

using namespace mlk::rt;

namespace {

// Server 0 with one worker and another server.
struct Rounds {
  static constexpr PeerId worker{Role::worker, 0}, server{Role::server, 1};
  Seeding seeding{77, 0};
  Turn turn{SteadyTime(std::chrono::hours(1))};

  Rounds() {
    const std::vector<TensorInfo> tensors = {{"w", {4}, 0, 4}, {"b", {2}, 4, 2}};
    seeding.model_is(cut_chunks(tensors, 2));
  }
  // Returns the header of the next seed_wanted message to the peer, and removes this message.
  std::optional<Header> hear(PeerId peer) {
    for (auto& decision : turn.in_order) {
      const auto* effect = std::get_if<Effects::Effect>(&decision);
      const auto* message = effect == nullptr ? nullptr : std::get_if<Effects::Message>(effect);
      if (message == nullptr || message->to != peer) continue;
      const Header header = message->header;
      CHECK(header.type == MessageType::seed_wanted);
      decision = CountLate{};
      return header;
    }
    return {};
  }
  // Opens a round at the other server. Returns the number of the round.
  std::uint64_t open() {
    seeding.open({1}, turn);
    const auto header = hear(server);
    REQUIRE(header);
    CHECK(header->key == 1);
    return header->clock;
  }
  // The round whose seeds this server accepts, according to the last OpenSeeding.
  std::uint64_t own_round() const {
    std::uint64_t round = 0;
    for (const auto& decision : turn.in_order) {
      if (const auto* opened = std::get_if<OpenSeeding>(&decision)) round = opened->round;
    }
    return round;
  }
};

}  // namespace

TEST_CASE("a round of seeds is done when the server reports that it has the weights of this round") {
  Rounds run;
  const std::uint64_t round = run.open();
  CHECK(run.seeding.contains(1));
  CHECK_FALSE(run.seeding.seeded(1, round - 1));
  CHECK_FALSE(run.seeding.seeded(1, round + 1));
  CHECK_FALSE(run.seeding.done());
  CHECK(run.seeding.seeded(1, round));
  CHECK(run.seeding.done());
  CHECK_FALSE(run.seeding.seeded(1, round));  // a repeated report has no effect
}

TEST_CASE(
    "server 0 asks the seeding worker for the weights of a server when that server has opened the round") {
  Rounds run;
  const std::uint64_t round = run.open();
  run.seeding.from_worker(0, run.turn);
  CHECK(run.seeding.by(0));
  CHECK_FALSE(run.hear(Rounds::worker));
  run.seeding.opened(1, round - 1, run.turn);
  CHECK_FALSE(run.hear(Rounds::worker));
  run.seeding.opened(1, round, run.turn);
  const auto asked = run.hear(Rounds::worker);
  REQUIRE(asked);
  CHECK(asked->key == 1);
  CHECK(asked->clock == round);
}

TEST_CASE("broke_off() is true for a round that was abandoned, and for no other round") {
  Rounds run;
  const std::uint64_t broken = run.open();
  CHECK(run.seeding.give_up(run.turn) == std::set<std::uint32_t>{1});
  CHECK(run.seeding.give_up(run.turn).empty());
  const std::uint64_t next = run.open();
  CHECK(next != broken);
  CHECK(run.seeding.broke_off(broken));
  CHECK_FALSE(run.seeding.broke_off(next));
  CHECK(run.seeding.seeded(1, next));
  CHECK(run.seeding.give_up(run.turn).empty());
  CHECK_FALSE(run.seeding.broke_off(next));
}

TEST_CASE("server 0 accepts no seeds of a round that was abandoned") {
  Rounds run;
  run.seeding.open({0}, run.turn);
  CHECK(run.own_round() != 0);
  run.seeding.give_up(run.turn);
  CHECK(run.own_round() == 0);
}

TEST_CASE("a round of seeds may take 20 s, plus the time for the bytes of weights and state at 4 MB/s") {
  using std::chrono::seconds;
  Seeding seeding(77, 1);
  const std::vector<TensorInfo> tensors = {{"w", {5'000'000}, 0, 5'000'000}};
  seeding.model_is(cut_chunks(tensors, 1));
  const SteadyTime start(std::chrono::hours(1));
  Turn turn{start};
  seeding.open({0}, turn);
  CHECK_FALSE(seeding.overdue(start + seconds(30)));
  CHECK(seeding.overdue(start + seconds(30) + Milliseconds(1)));
  turn.now += seconds(7);
  seeding.open({1}, turn);  // server 1 holds none of the weights
  CHECK_FALSE(seeding.overdue(start + seconds(27)));
  CHECK(seeding.overdue(start + seconds(27) + Milliseconds(1)));
}
