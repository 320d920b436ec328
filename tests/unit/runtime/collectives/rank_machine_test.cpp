#include "runtime/collectives/rank_machine.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/collectives/rank_machine");

using namespace mlk::rt;

namespace {

RankSettings settings_of(std::uint32_t rank, std::uint32_t workers, std::uint64_t steps) {
  RankSettings settings;
  settings.assembly.self = {rank, 1};
  settings.assembly.workers = settings.assembly.minimum = workers;
  settings.assembly.patience = std::chrono::seconds(900);
  settings.assembly.new_lineage = [] { return std::uint64_t{7}; };
  settings.steps = steps;
  settings.step_samples = 64;
  settings.parameters = settings.optimizer_floats = 2;
  return settings;
}

template <typename Decision>
bool decides(const RankTurn& turn) {
  for (const auto& decision : turn.in_order) {
    if (std::holds_alternative<Decision>(decision)) return true;
  }
  return false;
}

bool sends(const RankTurn& turn, MessageType type) {
  return std::ranges::any_of(turn.in_order, [type](const auto& decision) {
    const auto* effect = std::get_if<Effects::Effect>(&decision);
    const auto* message = effect ? std::get_if<Effects::Message>(effect) : nullptr;
    return message && message->header.type == type;
  });
}

// A rank that is alone in its run, unless the test plays a second rank. The test gives the answers of the
// rank's process.
struct LoneRank {
  explicit LoneRank(std::uint64_t steps) : LoneRank(0, 1, steps) {}
  LoneRank(std::uint32_t rank, std::uint32_t workers, std::uint64_t steps)
      : LoneRank(settings_of(rank, workers, steps)) {}
  explicit LoneRank(const RankSettings& settings) : self(settings.assembly.self.rank), machine(settings) {}

  template <typename Call>
  RankTurn call(Call call) {
    RankTurn turn{now};
    call(turn);
    return turn;
  }
  RankTurn tick() {
    now = std::max(now, std::min(machine.next_tick(), now + std::chrono::hours(1)));
    return call([&](RankTurn& turn) { machine.tick(turn); });
  }
  void begin() {
    call([&](RankTurn& turn) { machine.start(turn); });
    while (!decides<MakeState>(tick())) REQUIRE(now < SteadyTime(std::chrono::hours(1)));
    CHECK(decides<BeginSteps>(call([&](RankTurn& turn) { machine.state_made({}, 0, turn); })));
  }
  RankTurn take_step() {
    CHECK(decides<TakeStep>(tick()));
    return call([&](RankTurn& turn) { machine.step_taken(turn); });
  }

  // An event from the other rank of two.
  RankTurn hear(Event event) {
    event.peer = {Role::worker, 1 - self};
    event.incarnation = 9;
    return call([&](RankTurn& turn) { machine.handle(std::move(event), turn); });
  }
  RankTurn say(EncodedMessage message) {
    return hear({.header = message.header, .payload = std::move(message.payload)});
  }

  const std::uint32_t self;
  SteadyTime now{std::chrono::seconds(1)};
  RankMachine machine;
};

}  // namespace

TEST_CASE("a rank makes its steps, saves the last one, reports, and ends") {
  LoneRank rank(2);
  rank.begin();
  CHECK(decides<AfterStep>(rank.take_step()));
  rank.take_step();
  CHECK(rank.machine.point().step == 2);
  CHECK(rank.machine.point().position == 128);
  CHECK(decides<SaveLast>(rank.tick()));
  CHECK(decides<SaveLast>(rank.tick()));  // again until it is saved
  CHECK(decides<ReportTrained>(rank.call([&](RankTurn& turn) { rank.machine.last_saved(turn); })));
  const RankTurn end = rank.call([&](RankTurn& turn) { rank.machine.reported(true, "result", turn); });
  CHECK(decides<RunIsTrained>(end));
  CHECK(decides<EndReported>(end));  // no other rank is left
}

TEST_CASE("when a rank gets SIGTERM, it finishes its step, saves its state and ends") {
  LoneRank rank(5);
  rank.begin();
  CHECK(decides<TakeStep>(rank.tick()));
  rank.machine.stop();
  CHECK(rank.machine.goes_on());
  rank.call([&](RankTurn& turn) { rank.machine.step_taken(turn); });
  const RankTurn end = rank.tick();
  CHECK(decides<SaveNow>(end));
  CHECK(decides<EndTerminated>(end));
}

TEST_CASE("a rank ends as terminated if it gets SIGTERM while it reports") {
  LoneRank rank(1);
  rank.begin();
  rank.take_step();
  rank.tick();
  rank.call([&](RankTurn& turn) { rank.machine.last_saved(turn); });
  CHECK(decides<EndTerminated>(rank.call([&](RankTurn& turn) { rank.machine.reported(false, "", turn); })));
}

TEST_CASE(
    "after its report, a rank waits a limited time for a rank that was never connected, and then ends") {
  RankSettings settings = settings_of(0, 2, 1);
  settings.assembly.minimum = 1;
  settings.late = std::chrono::seconds(60);
  LoneRank rank(settings);
  rank.begin();
  const SteadyTime began = rank.now;
  rank.take_step();
  rank.tick();
  rank.call([&](RankTurn& turn) { rank.machine.last_saved(turn); });
  CHECK_FALSE(
      decides<EndReported>(rank.call([&](RankTurn& turn) { rank.machine.reported(true, "result", turn); })));
  while (!decides<EndReported>(rank.tick())) REQUIRE(rank.now < began + std::chrono::seconds(61));
  CHECK(rank.now > began + std::chrono::seconds(50));
}

TEST_CASE("if a rank does not wait for a state, parts of a state count as late and are ignored") {
  LoneRank rank(5);
  rank.begin();
  Event part;
  part.peer = {Role::worker, 1};
  const std::uint64_t weights = 1;
  auto message = encode(StateMessage{rank.machine.assembly().generation().number, 3, 192, 0, 1, 0,
                                     std::as_bytes(std::span(&weights, 1))});
  part.header = message.header;
  part.payload = message.payload;
  const RankTurn turn = rank.call([&](RankTurn& t) { rank.machine.handle(std::move(part), t); });
  CHECK(decides<CountLate>(turn));
  CHECK_FALSE(decides<StoreState>(turn));
  CHECK(rank.machine.point().step == 0);
}

TEST_CASE("early frames from a rank are forgotten when the connection with that rank ends") {
  LoneRank rank(5);
  rank.call([&](RankTurn& turn) { rank.machine.start(turn); });
  Event down;
  down.kind = Event::Kind::down;
  down.peer = {Role::worker, 1};
  const RankTurn turn = rank.call([&](RankTurn& t) { rank.machine.handle(std::move(down), t); });
  CHECK(decides<ForgetFrames>(turn));
}

TEST_CASE("a rank sends a trouble message after its step if the generation has ended meanwhile") {
  LoneRank rank(0, 2, 5);
  rank.call([&](RankTurn& turn) { rank.machine.start(turn); });
  rank.hear({.kind = Event::Kind::up});
  REQUIRE(sends(rank.say(encode(StatusMessage{})), MessageType::propose));
  REQUIRE(decides<MakeState>(rank.say(encode(AcceptMessage{1, {}}))));
  rank.call([&](RankTurn& turn) { rank.machine.state_made({}, 0, turn); });
  REQUIRE(decides<TakeStep>(rank.tick()));
  rank.hear({.kind = Event::Kind::silent});
  rank.call([&](RankTurn& turn) { rank.machine.step_taken(turn); });
  CHECK(sends(rank.tick(), MessageType::trouble));
}

// Rank 1 of two, which has begun generation 1, proposed by rank 0, with the state of rank 0.
struct SecondRank : LoneRank {
  explicit SecondRank(std::uint64_t steps) : LoneRank(1, 2, steps) {
    call([&](RankTurn& turn) { machine.start(turn); });
    hear({.kind = Event::Kind::up});
    propose(1, 0);
    say(encode(BeginMessage{1, 0, 0, 0, {1}}));
    const std::vector<std::uint64_t> floats(2);
    for (const std::uint32_t offset : {0u, 2u})
      say(encode(StateMessage{1, 0, 0, 0, 0, offset, std::as_bytes(std::span(floats).first(1))}));
  }
  RankTurn propose(std::uint64_t number, std::uint64_t follows) {
    return say(encode(ProposeMessage{number, follows, 7, {{{0, 9}, ""}, {{1, 1}, ""}}}));
  }
  // Generation 2, in which this rank has to send the state of step 1 to the other rank.
  RankTurn begin_as_source() { return say(encode(BeginMessage{2, 1, 0, 1, {0}})); }
};

TEST_CASE(
    "if only one rank has finished the newest step, it sends its state to the other ranks in the next "
    "generation") {
  SecondRank rank(1);
  REQUIRE(decides<TakeStep>(rank.tick()));
  rank.say(encode(TroubleMessage{1}));  // the other rank has abandoned the step
  CHECK(sends(rank.propose(2, 1), MessageType::accept));
  rank.call([&](RankTurn& turn) { rank.machine.step_taken(turn); });
  rank.tick();
  CHECK(decides<SendState>(rank.begin_as_source()));
}

TEST_CASE("a rank sends its state if the begin message names this rank as source") {
  SecondRank rank(5);
  rank.take_step();
  CHECK(sends(rank.propose(2, 1), MessageType::accept));
  CHECK(decides<SendState>(rank.begin_as_source()));
}

TEST_CASE("a sum counts as hung if the other rank also waits for this sum, or is at a later step") {
  SecondRank rank(5);
  rank.take_step();
  REQUIRE(decides<TakeStep>(rank.tick()));
  bool hangs = true;
  const auto wait = [&] {
    return rank.call([&](RankTurn& turn) { hangs = rank.machine.waits_for_sum(turn); });
  };
  const auto hangs_after = [&](const StatusMessage& status) {
    rank.now += std::chrono::milliseconds(250);
    rank.say(encode(status));
    wait();
    return hangs;
  };
  CHECK(sends(wait(), MessageType::status));
  CHECK_FALSE(hangs);
  CHECK_FALSE(hangs_after({1, 7, 1, false}));  // the other rank may still compute
  CHECK_FALSE(hangs_after({1, 7, 0, true}));   // the other rank waits in an earlier step
  CHECK_FALSE(hangs_after({0, 0, 1, true}));   // the other rank is in no generation
  CHECK(hangs_after({1, 7, 1, true}));
  CHECK_FALSE(hangs_after({1, 7, 1, false}));
  CHECK(hangs_after({1, 7, 2, false}));
  rank.call([&](RankTurn& turn) { rank.machine.step_given_up(turn); });
  CHECK_FALSE(rank.machine.goes_on());
}

TEST_CASE("a rank answers a status of an earlier step with its own status") {
  SecondRank rank(5);
  CHECK_FALSE(sends(rank.say(encode(StatusMessage{1, 7, 0, false})), MessageType::status));
  rank.take_step();
  CHECK(sends(rank.say(encode(StatusMessage{1, 7, 0, false})), MessageType::status));
  CHECK_FALSE(sends(rank.say(encode(StatusMessage{1, 7, 1, false})), MessageType::status));
}

// For example, rank 0 of three ranks reports. Then rank 2 may see the end of rank 1 before it gets the result
// from rank 0.
TEST_CASE("a trained rank with the last checkpoint waits at most 10 s for the result, and then ends") {
  for (const bool is_told : {true, false}) {
    CAPTURE(is_told);
    SecondRank rank(1);
    rank.take_step();
    rank.tick();
    rank.hear({.kind = Event::Kind::down});
    REQUIRE(rank.machine.checks_for_last());
    const SteadyTime found = rank.now;
    const RankTurn turn = rank.call([&](RankTurn& t) { rank.machine.found_last(t); });
    CHECK_FALSE(decides<EndWithFound>(turn));
    CHECK_FALSE(rank.machine.checks_for_last());
    CHECK_FALSE(sends(rank.hear({.kind = Event::Kind::up}), MessageType::status));
    if (is_told) {
      CHECK(decides<EndTrained>(rank.say(encode(DoneMessage{1, "result"}))));
    } else {
      CHECK(decides<EndWithFound>(rank.tick()));
      CHECK(rank.now > found);
      CHECK(rank.now <= found + std::chrono::seconds(10));
    }
  }
}

TEST_CASE("if a rank finds the last checkpoint at its start, it ends as trained at once") {
  LoneRank rank(1, 2, 1);
  rank.call([&](RankTurn& turn) { rank.machine.start(turn); });
  CHECK(decides<EndWithFound>(rank.call([&](RankTurn& turn) { rank.machine.found_last(turn); })));
}

TEST_CASE("if a rank gets SIGTERM while it waits for the result, it ends") {
  SecondRank rank(1);
  rank.take_step();
  rank.tick();
  rank.hear({.kind = Event::Kind::down});
  rank.call([&](RankTurn& turn) { rank.machine.found_last(turn); });
  rank.machine.stop();
  CHECK(decides<EndWithFound>(rank.hear({.kind = Event::Kind::down})));
}
