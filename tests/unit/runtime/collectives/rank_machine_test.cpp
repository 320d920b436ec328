#include "runtime/collectives/rank_machine.h"

#include <variant>

#include <doctest/doctest.h>

using namespace mlk::rt;

namespace {

RankSettings of_one_rank(std::uint64_t steps) {
  RankSettings settings;
  settings.assembly.self = {0, 1};
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

// A rank that is alone in its run, whose process answers as the test says.
struct LoneRank {
  explicit LoneRank(std::uint64_t steps) : machine(of_one_rank(steps)) {}

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
  CHECK(decides<SaveLast>(rank.tick()));  // until it is saved
  CHECK(decides<ReportTrained>(rank.call([&](RankTurn& turn) { rank.machine.last_saved(turn); })));
  const RankTurn end = rank.call([&](RankTurn& turn) { rank.machine.reported(true, "result", turn); });
  CHECK(decides<RunIsTrained>(end));
  CHECK(decides<EndReported>(end));  // nobody else is left
}

TEST_CASE("SIGTERM counts between two steps, and the state is saved") {
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

TEST_CASE("a rank that is told to stop while it reports ends as terminated, not as trained") {
  LoneRank rank(1);
  rank.begin();
  rank.take_step();
  rank.tick();
  rank.call([&](RankTurn& turn) { rank.machine.last_saved(turn); });
  CHECK(decides<EndTerminated>(rank.call([&](RankTurn& turn) { rank.machine.reported(false, "", turn); })));
}

TEST_CASE("parts of a state that nobody waits for are counted, and change nothing") {
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

TEST_CASE("what came early from a rank is forgotten when its connection ends") {
  LoneRank rank(5);
  rank.call([&](RankTurn& turn) { rank.machine.start(turn); });
  Event down;
  down.kind = Event::Kind::down;
  down.peer = {Role::worker, 1};
  const RankTurn turn = rank.call([&](RankTurn& t) { rank.machine.handle(std::move(down), t); });
  CHECK(decides<ForgetFrames>(turn));
}
