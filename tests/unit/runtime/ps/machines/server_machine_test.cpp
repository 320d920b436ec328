// A server without its process, in virtual time: how long it stays, how it ends, which weights it sends.
#include "runtime/ps/machines/server_machine.h"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "tests/unit/runtime/coordinator_run.h"

TEST_SUITE_BEGIN("runtime/ps/machines/server_machine");

namespace mlk::rt {
namespace {
namespace of_machine {

using phases::server;
using phases::worker;
using std::chrono::hours;
using std::chrono::seconds;

struct Served {
  std::unique_ptr<kernels::Ops> ops = kernels::make_reference_ops();
  SteadyTime now{hours(1)};
  ServerMachine machine;
  std::vector<Turn::Decision> decisions;
  std::optional<End> end;

  explicit Served(std::uint32_t rank, const phases::Setting& setting = {}, int failures = 0,
                  bool trained = false)
      : machine({rank, settings(setting, trained), failures, seconds(30)}, *ops, now) {}
  static Coordinator::Settings settings(const phases::Setting& setting, bool trained) {
    Coordinator::Settings settings = phases::coordinator_settings(setting);
    settings.trained = trained;
    return settings;
  }

  template <typename Call>
  void act(Call call) {
    Turn turn{now};
    call(turn);
    for (Turn::Decision& decision : turn.in_order) {
      if (const auto* ended = std::get_if<End>(&decision)) end = *ended;
      decisions.push_back(std::move(decision));
    }
  }
  void happens(Event::Kind kind, PeerId peer, std::uint64_t incarnation = 1, std::uint64_t code = 0) {
    Event event;
    event.kind = kind;
    event.peer = peer;
    event.incarnation = incarnation;
    event.header.clock = code;
    act([&](Turn& turn) { machine.handle(event, turn); });
  }
  void hears(PeerId peer, MessageType type, std::uint64_t clock = 0, std::uint8_t flags = 0,
             Bytes payload = {}, std::uint32_t key = 0, std::uint64_t offset = 0) {
    Event event;
    event.peer = peer;
    event.incarnation = 1;
    event.header.type = type;
    event.header.clock = clock;
    event.header.flags = flags;
    event.header.key = key;
    event.header.offset = offset;
    event.payload = std::move(payload);
    act([&](Turn& turn) { machine.handle(event, turn); });
  }
  void hears_floats(PeerId peer, MessageType type, std::uint32_t key, std::uint64_t clock,
                    std::uint64_t offset, const std::vector<float>& values) {
    hears(peer, type, clock, 0, PayloadWriter().raw(std::as_bytes(std::span(values))).bytes(), key, offset);
  }
  void joins(PeerId peer, const std::vector<TensorInfo>& tensors = {{"w", {4}, 0, 4}}) {
    JoinMessage join;
    join.tensors = tensors;
    hears(peer, MessageType::join, 0, 0, encode(join));
  }
  std::uint64_t opened_round() const {
    std::uint64_t round = 0;
    for (const auto& decision : decisions) {
      if (const auto* opened = std::get_if<OpenSeeding>(&decision)) round = opened->round;
    }
    REQUIRE(round != 0);
    return round;
  }
  // Seeds the only chunk of the server with four weights of this clock, in this round.
  void is_seeded(std::uint64_t round, std::uint64_t clock, std::uint32_t chunk = 0) {
    machine.open_seeding(round);
    hears_floats(worker(0), MessageType::seed, chunk, clock, round, {1, 2, 3, 4});
  }
  void pass(SteadyTime::duration time) {
    now += time;
    act([&](Turn& turn) { machine.tick(turn); });
  }
  // How many messages of this type the peer has got so far.
  int told(PeerId peer, MessageType type) const {
    int count = 0;
    for (const auto& decision : decisions) {
      const auto* effect = std::get_if<Effects::Effect>(&decision);
      const auto* message = effect == nullptr ? nullptr : std::get_if<Effects::Message>(effect);
      count += message != nullptr && message->to == peer && message->header.type == type;
    }
    return count;
  }
};

TEST_CASE(
    "the first process of a server waits up to a day for a worker, and a later process no longer than the "
    "patience of the run") {
  Served first(0, {.patience = 60});
  first.pass(hours(24));
  CHECK_FALSE(first.end);
  first.pass(seconds(1));
  REQUIRE(first.end);
  CHECK(first.end->code == ExitCode::peers_lost);

  Served replacing(0, {.patience = 60}, 1);
  replacing.pass(seconds(60));
  CHECK_FALSE(replacing.end);
  replacing.pass(seconds(1));
  REQUIRE(replacing.end);
  CHECK(replacing.end->code == ExitCode::peers_lost);
  CHECK(replacing.end->message == "no worker was heard of");
}

TEST_CASE("a server whose last worker is gone ends with exit code 0 after the patience of the run") {
  Served run(0, {.workers = 1, .patience = 60});
  run.happens(Event::Kind::up, worker(0));
  run.pass(seconds(50));
  CHECK_FALSE(run.end);
  run.happens(Event::Kind::down, worker(0));
  run.pass(seconds(60));
  CHECK_FALSE(run.end);
  run.pass(seconds(1));
  REQUIRE(run.end);
  CHECK(run.end->code == ExitCode::trained);
  CHECK_FALSE(run.end->trained);
}

TEST_CASE(
    "if server 0 has ended with exit code 0, a server waits for its first worker no longer than the "
    "patience") {
  Served run(1, {.servers = 2, .patience = 60});
  run.happens(Event::Kind::up, server(0));
  bool waits_a_day = true;
  SUBCASE("server 0 has failed: its Job starts another process") {
    run.happens(Event::Kind::goodbye, server(0), 1, static_cast<std::uint64_t>(ExitCode::internal_error));
  }
  SUBCASE("server 0 has ended with 0: it does not come back") {
    run.happens(Event::Kind::goodbye, server(0), 1, static_cast<std::uint64_t>(ExitCode::trained));
    waits_a_day = false;
  }
  SUBCASE("an earlier process of server 0 has ended with 0, and the next one is connected") {
    run.happens(Event::Kind::goodbye, server(0), 1, static_cast<std::uint64_t>(ExitCode::trained));
    run.happens(Event::Kind::up, server(0), 2);
  }
  run.pass(seconds(60));
  CHECK_FALSE(run.end);
  run.pass(seconds(1));
  REQUIRE(run.end.has_value() == !waits_a_day);
  if (!waits_a_day) CHECK(run.end->code == ExitCode::peers_lost);
}

TEST_CASE(
    "if a server finds the last checkpoint, it ends after 10 s, and reports the end to waiting workers") {
  Served alone(0, {.patience = 60}, 0, true);
  alone.pass(seconds(10));
  CHECK_FALSE(alone.end);
  alone.pass(seconds(1));
  REQUIRE(alone.end);
  CHECK(alone.end->trained);

  Served waited_for(0, {.workers = 1, .servers = 2, .patience = 60}, 0, true);
  waited_for.pass(seconds(5));
  waited_for.happens(Event::Kind::up, worker(0));
  waited_for.pass(seconds(10));
  CHECK(waited_for.told(worker(0), MessageType::finish) == 0);
  waited_for.pass(seconds(1));
  CHECK(waited_for.told(worker(0), MessageType::finish) == 1);
  CHECK_FALSE(waited_for.end);
  waited_for.happens(Event::Kind::goodbye, worker(0), 1, 0);
  waited_for.pass(seconds(0));
  REQUIRE(waited_for.end);
  CHECK(waited_for.end->trained);
}

TEST_CASE("after SIGTERM, a server waits 20 s for server 0, and ends at once if server 0 is not connected") {
  Served without(1);
  without.machine.stop();
  without.pass(seconds(0));
  REQUIRE(without.end);
  CHECK(without.end->code == ExitCode::terminated);
  CHECK_FALSE(without.end->checkpoint);

  Served led(1);
  led.happens(Event::Kind::up, server(0));
  led.machine.stop();
  led.pass(seconds(0));
  led.pass(seconds(20));
  CHECK_FALSE(led.end);
  led.pass(Milliseconds(1));
  REQUIRE(led.end);
  CHECK(led.end->message == "terminated");

  Served left(1);
  left.happens(Event::Kind::up, server(0));
  left.machine.stop();
  left.pass(seconds(0));
  CHECK_FALSE(left.end);
  left.happens(Event::Kind::down, server(0));
  left.pass(seconds(0));
  CHECK(left.end);
}

TEST_CASE("the end of an older incarnation of a worker does not affect the newer incarnation") {
  Served run(0, {.workers = 1, .patience = 60});
  run.happens(Event::Kind::up, worker(0), 1);
  run.happens(Event::Kind::up, worker(0), 2);
  run.happens(Event::Kind::down, worker(0), 1);
  run.pass(seconds(100));
  CHECK_FALSE(run.end);  // a worker is connected
  run.happens(Event::Kind::audible, worker(0), 1);
  CHECK(run.told(worker(0), MessageType::wait) == 0);
  run.happens(Event::Kind::audible, worker(0), 2);
  CHECK(run.told(worker(0), MessageType::wait) == 1);
}

TEST_CASE("a slow worker gets a chunk once, in the newest version, when the connection has room") {
  Served run(0, {.workers = 1, .sync = false});
  run.happens(Event::Kind::up, worker(0));
  run.joins(worker(0));
  run.pass(seconds(0));
  const std::uint64_t round = run.opened_round();
  run.machine.open_seeding(round);
  run.hears_floats(worker(0), MessageType::seed, 0, 0, round - 1, {9, 9, 9, 9});  // late
  CHECK_FALSE(run.machine.model().shard->complete());
  run.hears_floats(worker(0), MessageType::seed, 0, 0, round, {1, 2, 3, 4});
  CHECK(run.machine.model().shard->complete());
  CHECK_FALSE(run.machine.has_queued(worker(0)));
  run.hears(worker(0), MessageType::pull, 1);
  run.hears_floats(worker(0), MessageType::push, 0, 2, 0, {0, 0, 0, 0});
  run.hears_floats(worker(0), MessageType::push, 0, 2, 0, {0, 0, 0, 0});  // the same push again counts once
  CHECK(run.machine.has_queued(worker(0)));
  const auto owed = run.machine.next_weights(worker(0));
  REQUIRE(owed);
  CHECK(owed->header.clock == 2);
  CHECK(owed->header.offset == 1);
  CHECK(std::vector<float>(owed->values.begin(), owed->values.end()) == std::vector<float>{1, 2, 3, 4});
  CHECK_FALSE(run.machine.next_weights(worker(0)));
}

TEST_CASE(
    "if a server cannot save a step because it lacks the weights of that step, it also reports that it lacks "
    "them") {
  Served first(0, {.workers = 1});
  first.happens(Event::Kind::up, worker(0));
  first.joins(worker(0));
  first.pass(seconds(0));
  first.is_seeded(first.opened_round(), 3);
  const int before = first.told(worker(0), MessageType::wait);
  first.act([&](Turn& turn) { first.machine.written({0, "aside", {}, "its weights are of step 3"}, turn); });
  CHECK(first.told(worker(0), MessageType::wait) == before + 1);  // the request to join again

  Served other(1, {.workers = 1, .servers = 2});
  other.joins(worker(0), {{"w", {4}, 0, 4}, {"b", {4}, 4, 4}});
  other.is_seeded(7, 3, 1);
  other.act([&](Turn& turn) { other.machine.written({3, "aside", {}, "no space"}, turn); });
  CHECK(other.told(server(0), MessageType::written) == 1);
  CHECK(other.told(server(0), MessageType::join) == 0);
  other.act([&](Turn& turn) { other.machine.written({4, "aside", {}, "its weights are of step 3"}, turn); });
  CHECK(other.told(server(0), MessageType::written) == 2);
  CHECK(other.told(server(0), MessageType::join) == 1);
}

}  // namespace of_machine
}  // namespace
}  // namespace mlk::rt
