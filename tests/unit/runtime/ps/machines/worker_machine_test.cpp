// A worker without its process, in virtual time: what it asks for, and how long it waits.
#include "runtime/ps/machines/worker_machine.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/ps/machines/worker_machine");

namespace mlk::rt {
namespace {
namespace of_worker {

using std::chrono::seconds;
using Type = MessageType;

PeerId server_of(std::uint32_t rank) { return {Role::server, rank}; }

struct Setup {
  int servers = 1;
  bool sync = true;
  int patience = 900, offline = 0;
};

Config config_of(const Setup& setup) {
  Config config;
  config.mode = Mode::ps;
  config.workers = {2, 1};
  config.servers = {setup.servers};
  config.steps = 100;
  config.data.batch = 4;
  config.consistency.sync = setup.sync;
  config.patience_seconds = setup.patience;
  config.offline_seconds = setup.offline;
  return config;
}

// Computing takes no time, and its loss is 0.5.
struct Played {
  SteadyTime now{std::chrono::hours(1)};
  WorkerMachine machine;
  std::vector<std::pair<PeerId, Header>> said;  // every message that was sent
  std::vector<ComputeSlice> computed;
  std::vector<Evaluate> evaluated;
  std::string lines;
  std::uint64_t offline_steps = 0;
  std::optional<std::string> trained;
  bool terminated = false, ended_with_found = false;
  std::optional<Failure> failure;

  explicit Played(const Setup& setup) : machine(config_of(setup), {{"w", {4}, 0, 4}, {"b", {2}, 4, 2}}, now) {
    act([&](WorkerTurn& turn) { machine.start(turn); });
  }

  void act(const std::function<void(WorkerTurn&)>& call) {
    WorkerTurn turn{now};
    call(turn);
    for (auto& decision : turn.in_order) {
      if (const auto* effect = std::get_if<Effects::Effect>(&decision)) {
        if (const auto* message = std::get_if<Effects::Message>(effect))
          said.emplace_back(message->to, message->header);
        if (const auto* line = std::get_if<Effects::Line>(effect)) lines += line->text + "\n";
      }
      if (const auto* chunk = std::get_if<SendChunk>(&decision)) said.emplace_back(chunk->to, chunk->header);
      if (const auto* slice = std::get_if<ComputeSlice>(&decision)) {
        computed.push_back(*slice);
        act([&](WorkerTurn& next) { machine.computed(0.5, next); });
      }
      if (std::holds_alternative<CountStep>(decision))
        act([&](WorkerTurn& next) { machine.step_counted(0.25, next); });
      if (const auto* slice = std::get_if<OfflineSlice>(&decision)) {
        ++offline_steps;
        const auto [step, position] = *slice;
        act([&](WorkerTurn& next) { machine.offline_advanced(true, step + 1, position + 8, next); });
      }
      if (const auto* wanted = std::get_if<Evaluate>(&decision)) {
        evaluated.push_back(*wanted);
        act([&](WorkerTurn& next) { machine.evaluated(true, "the result", next); });
      }
      if (const auto* end = std::get_if<EndTrained>(&decision)) trained = end->result;
      if (std::holds_alternative<EndTerminated>(decision)) terminated = true;
      if (std::holds_alternative<EndWithFound>(decision)) ended_with_found = true;
      if (const auto* wanted = std::get_if<Failure>(&decision)) failure = *wanted;
    }
  }
  void happens(Event::Kind kind, std::uint32_t server) {
    Event event;
    event.kind = kind;
    event.peer = server_of(server);
    act([&](WorkerTurn& turn) { machine.handle(event, turn); });
  }
  void hears(Type type, std::uint64_t clock = 0, std::uint32_t key = 0, std::uint8_t flags = 0,
             Bytes payload = {}, std::uint64_t offset = 0) {
    Event event;
    event.peer = server_of(0);
    event.header.type = type;
    event.header.clock = clock;
    event.header.key = key;
    event.header.flags = flags;
    event.header.offset = offset;
    event.payload = std::move(payload);
    act([&](WorkerTurn& turn) { machine.handle(event, turn); });
  }
  void is_given(std::uint64_t clock, std::uint32_t slice, std::uint64_t position) {
    WorkMessage work;
    work.position = position;
    work.samples = 4;
    work.run_position = 8 * clock;
    hears(Type::work, clock, slice, 0, encode(work));
  }
  void gets_weights(std::uint64_t clock) {
    hears(Type::weights, clock, 0, 0, Bytes(16), clock);
    hears(Type::weights, clock, 1, 0, Bytes(8), clock);
  }
  void is_accepted(std::uint64_t clock) {
    for (const std::uint32_t chunk : {0u, 1u}) hears(Type::accepted, clock, chunk);
  }
  // The worker has joined, and has computed and pushed its work of the first step.
  void begin() {
    happens(Event::Kind::up, 0);
    is_given(0, 0, 0);
    gets_weights(0);
  }
  void pass(SteadyTime::duration time) {
    for (const SteadyTime end = now + time; now < end;) {
      now += std::min<SteadyTime::duration>(Milliseconds(100), end - now);
      act([&](WorkerTurn& turn) { machine.tick(turn); });
    }
  }
  int said_to(std::uint32_t server, Type type) const {
    return static_cast<int>(std::ranges::count_if(said, [&](const auto& message) {
      return message.first == server_of(server) && message.second.type == type;
    }));
  }
};

TEST_CASE("a worker joins when all servers are there, computes its slice, and asks for the next") {
  Played worker({.servers = 1});
  CHECK(worker.said.empty());
  worker.happens(Event::Kind::up, 0);
  CHECK(worker.said_to(0, Type::join) == 1);
  CHECK(worker.said_to(0, Type::ready) == 1);
  worker.is_given(0, 1, 4);
  CHECK(worker.said_to(0, Type::pull) == 2);
  CHECK(worker.computed.empty());
  worker.gets_weights(0);
  REQUIRE(worker.computed.size() == 1);
  CHECK(worker.computed[0].position == 4);
  CHECK(worker.said_to(0, Type::push) == 2);
  CHECK(worker.said_to(0, Type::ready) == 1);
  worker.is_accepted(0);
  CHECK(worker.said_to(0, Type::ready) == 2);
  worker.gets_weights(1);
  worker.is_given(1, 0, 8);
  CHECK(worker.said_to(0, Type::pull) == 2);  // the server sent the weights by itself
  CHECK(worker.computed.size() == 2);
}

TEST_CASE("a worker asks again every 500 ms for weights of a step that do not arrive") {
  Played worker({});
  worker.happens(Event::Kind::up, 0);
  worker.is_given(0, 0, 0);
  worker.hears(Type::weights, 0, 0, 0, Bytes(16), 0);
  CHECK(worker.said_to(0, Type::pull) == 2);
  worker.pass(Milliseconds(400));
  CHECK(worker.said_to(0, Type::pull) == 2);
  worker.pass(Milliseconds(100));
  CHECK(worker.said_to(0, Type::pull) == 3);  // for the missing chunk
  CHECK(worker.said.back().second.key == 1);
  worker.pass(Milliseconds(500));
  CHECK(worker.said_to(0, Type::pull) == 4);
}

TEST_CASE(
    "a worker that lacks a server for more than a second reports this once to server 0, and joins again "
    "later") {
  Played worker({.servers = 2});
  worker.happens(Event::Kind::up, 0);
  worker.happens(Event::Kind::up, 1);
  worker.pass(seconds(5));
  worker.happens(Event::Kind::down, 1);
  worker.pass(seconds(1));
  CHECK(worker.said_to(0, Type::cut_off) == 0);
  worker.pass(seconds(5));
  CHECK(worker.said_to(0, Type::cut_off) == 1);
  CHECK(worker.lines.starts_with("server/1 is lost, trying again\nwaiting for server 1 ("));
  worker.happens(Event::Kind::up, 1);
  CHECK(worker.said_to(1, Type::join) == 2);
}

TEST_CASE(
    "while a server is lost, a worker continues offline for the allowed time, and then joins with its new "
    "step") {
  Played worker({.offline = 2});
  worker.begin();
  worker.is_accepted(0);
  worker.gets_weights(1);
  worker.happens(Event::Kind::down, 0);
  CHECK(worker.machine.wait(worker.now) == Milliseconds(0));
  worker.pass(seconds(5));
  CHECK(worker.offline_steps == 19);
  CHECK(worker.machine.wait(worker.now) == Milliseconds(100));
  worker.happens(Event::Kind::up, 0);
  CHECK(worker.said.end()[-2].second.type == Type::join);
  CHECK(worker.said.end()[-2].second.clock == 20);
  CHECK(worker.lines.find("goes on offline for 2 s at most, from step 1\n") != std::string::npos);
  CHECK(worker.lines.find("has made 19 steps offline, to step 20\n") != std::string::npos);
}

TEST_CASE("a worker whose model is still at step 0 makes no steps offline") {
  Played worker({.offline = 2});
  worker.begin();
  worker.happens(Event::Kind::down, 0);
  worker.pass(seconds(3));
  CHECK(worker.offline_steps == 0);
}

TEST_CASE("a worker fails if servers are lost for longer than the patience of the run") {
  Played worker({.patience = 30});
  worker.pass(seconds(30));
  CHECK_FALSE(worker.failure);
  worker.pass(Milliseconds(100));
  REQUIRE(worker.failure);
  CHECK(worker.failure->code == ExitCode::peers_lost);
  CHECK(std::string(worker.failure->what()) == "gave up waiting for server 0 (30 s)");
}

TEST_CASE("a worker fails if server 0 sends no work and no wait message within the patience") {
  Played worker({.patience = 30});
  worker.happens(Event::Kind::up, 0);
  worker.pass(seconds(20));
  worker.hears(Type::wait, 0, 0, flag_running);
  worker.pass(seconds(30));
  CHECK_FALSE(worker.failure);
  worker.pass(Milliseconds(100));
  REQUIRE(worker.failure);
  CHECK(std::string(worker.failure->what()) == "gave up waiting for the servers' answer (30 s)");
}

TEST_CASE("a worker waits longer than its patience if server 0 says that the run is not training") {
  Played worker({.patience = 30});
  worker.happens(Event::Kind::up, 0);
  for (int told = 0; told < 30; ++told) {
    worker.pass(seconds(2));
    worker.hears(Type::wait, 0, 0);
  }
  worker.happens(Event::Kind::down, 0);
  worker.pass(seconds(30));
  CHECK_FALSE(worker.failure);
  worker.pass(Milliseconds(100));
  REQUIRE(worker.failure);
  CHECK(std::string(worker.failure->what()) == "gave up waiting for server 0 (90 s)");
}

TEST_CASE("a worker joins again on request, even while its weights are under way") {
  Played worker({});
  worker.happens(Event::Kind::up, 0);
  worker.is_given(0, 0, 0);
  worker.hears(Type::wait, 0, 0, flag_rejoin);
  CHECK(worker.said_to(0, Type::join) == 2);
  CHECK(worker.said_to(0, Type::ready) == 2);
  worker.hears(Type::weights, 0, 0, 0, Bytes(16), 0);
  worker.is_given(0, 1, 4);
  worker.gets_weights(0);
  REQUIRE(worker.computed.size() == 1);
  worker.hears(Type::accepted, 0, 0, flag_behind);
  CHECK(worker.said_to(0, Type::join) == 3);
}

TEST_CASE(
    "if a rank is asked for the report, it evaluates the model, reports, and ends with the result when the "
    "run is finished") {
  Played worker({});
  worker.begin();
  worker.is_accepted(0);
  worker.hears(Type::trained, 1, 0, 0, encode(TrainedMessage{8, 0, {}}));
  CHECK(worker.evaluated.empty());
  worker.gets_weights(1);
  REQUIRE(worker.evaluated.size() == 1);
  CHECK(worker.evaluated[0].step == 1);
  CHECK(worker.evaluated[0].position == 8);
  CHECK(worker.said_to(0, Type::reported) == 1);
  worker.hears(Type::finish, 0, 0, 0, PayloadWriter().text("the result").bytes());
  CHECK(worker.trained == "the result");
}

TEST_CASE("a worker that gets SIGTERM finishes and reports its slice, and then ends as terminated") {
  Played worker({});
  worker.begin();
  worker.machine.stop();
  worker.hears(Type::accepted, 0, 0);
  CHECK_FALSE(worker.terminated);
  worker.hears(Type::accepted, 0, 1);
  CHECK(worker.terminated);
  CHECK(worker.said_to(0, Type::ready) == 2);
}

TEST_CASE("if a worker finds the last checkpoint while no server is there, the worker ends as trained") {
  Played worker({});
  CHECK(worker.machine.checks_for_last(worker.now));
  worker.act([&](WorkerTurn& turn) { worker.machine.found_last(turn); });
  CHECK(worker.ended_with_found);
}

TEST_CASE("if a finish message has no result, a worker first looks for the last checkpoint") {
  Played worker({});
  worker.begin();
  worker.hears(Type::finish);
  CHECK(worker.machine.checks_for_last(worker.now));
  CHECK_FALSE(worker.trained);
  SUBCASE("it finds the checkpoint") {
    worker.act([&](WorkerTurn& turn) { worker.machine.found_last(turn); });
    CHECK(worker.ended_with_found);
  }
  SUBCASE("it does not find the checkpoint") {
    worker.pass(seconds(64));
    CHECK_FALSE(worker.trained);
    worker.pass(seconds(1));
    CHECK(worker.trained == "");
  }
  SUBCASE("it gets the result from another server") {
    worker.hears(Type::finish, 0, 0, 0, PayloadWriter().text("the result").bytes());
    CHECK(worker.trained == "the result");
  }
  SUBCASE("it gets SIGTERM") {
    worker.machine.stop();
    worker.pass(Milliseconds(100));
    CHECK(worker.trained == "");
  }
}

// Server 0 may be new, and not know that an earlier server 0 has finished the run.
TEST_CASE("a worker looks for the last checkpoint if it gets no sign for 10 s that the run continues") {
  Played worker({});
  worker.happens(Event::Kind::up, 0);
  CHECK_FALSE(worker.machine.checks_for_last(worker.now));
  worker.now += seconds(9);
  worker.hears(Type::wait, 0, 0, flag_running);
  worker.now += seconds(9);
  CHECK_FALSE(worker.machine.checks_for_last(worker.now));
  worker.hears(Type::wait, 0, 0);
  worker.now += seconds(2);
  CHECK(worker.machine.checks_for_last(worker.now));
}

TEST_CASE("without sync, a worker computes at once if its weights are new enough") {
  Played worker({.sync = false});
  worker.happens(Event::Kind::up, 0);
  worker.is_given(0, 0, 0);
  const std::uint64_t count = worker.said.back().second.clock;
  for (const std::uint32_t chunk : {0u, 1u})
    worker.hears(Type::weights, count, chunk, 0, Bytes(chunk == 0 ? 16 : 8), 7);
  REQUIRE(worker.computed.size() == 1);
  const Header pushed = worker.said.back().second;
  CHECK(pushed.type == Type::push);
  CHECK(pushed.offset == 7);
  for (const std::uint32_t chunk : {0u, 1u})
    worker.hears(Type::weights, pushed.clock, chunk, 0, Bytes(chunk == 0 ? 16 : 8), 8);
  worker.is_given(8, 0, 4);
  CHECK(worker.computed.size() == 2);
  CHECK(worker.said_to(0, Type::pull) == 2);
}

}  // namespace of_worker
}  // namespace
}  // namespace mlk::rt
