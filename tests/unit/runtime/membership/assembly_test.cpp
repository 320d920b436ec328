// How a rank agrees with other ranks on the next generation: which proposals it accepts, and how the
// generation begins.
#include "runtime/membership/assembly.h"

#include <optional>
#include <set>

#include <doctest/doctest.h>

#include "tests/unit/runtime/among_ranks.h"

TEST_SUITE_BEGIN("runtime/membership/assembly");

using namespace mlk::rt;
using namespace mlk::test;

TEST_CASE(
    "a rank accepts a proposal that includes all ranks, answers with the step of its state, and joins the "
    "generation") {
  AmongRanks stage(2, 3);
  stage.state = StateVersion{40, 3};
  stage.propose(0, 1, {0, 1, 2}, 0);
  const EncodedMessage answer = stage.answer(0);
  CHECK(answer.header.type == MessageType::accept);
  CHECK(answer.header.generation == 1);
  CHECK(answer.header.clock == 40);
  CHECK(answer.header.offset == 3);
  stage.begin(0, 1, 5);
  REQUIRE(stage.assembly.generation().number == 1);
  CHECK(stage.assembly.generation().members.size() == 3);
  CHECK(stage.assembly.restarts() == 5);
}

TEST_CASE("a rank without a state sends an accept message without a state") {
  AmongRanks stage(1, 2);
  stage.state.reset();
  stage.propose(0, 1, {0, 1}, 0);
  const EncodedMessage answer = stage.answer(0);
  CHECK(answer.header.type == MessageType::accept);
  CHECK(answer.header.clock == no_state);
}

TEST_CASE("a rank refuses a proposal whose number is not above the promised number") {
  AmongRanks stage(2, 3);
  stage.propose(1, 5, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(1) == MessageType::accept);
  for (const std::uint64_t number : {5, 4}) {
    stage.propose(0, number, {0, 1, 2}, 0);
    const EncodedMessage refusal = stage.answer(0);
    CHECK(refusal.header.type == MessageType::refuse);
    CHECK(refusal.header.generation == 5);
  }
  stage.propose(0, 6, {0, 1, 2}, 0);
  CHECK(stage.answer_type(0) == MessageType::accept);
}

TEST_CASE(
    "if two ranks propose the first generation, the lower rank has priority, and the other gets a refusal") {
  AmongRanks stage(2, 5);
  stage.propose(1, 1, {1, 2, 3, 4}, 0);
  REQUIRE(stage.answer_type(1) == MessageType::accept);
  stage.propose(0, 2, {0, 2, 3, 4}, 0);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  const EncodedMessage withdrawn = stage.hear(rank_at(1), {MessageType::refuse});
  CHECK(withdrawn.header.clock == 1);  // the number that the rank no longer accepts
  stage.propose(1, 3, {1, 2, 3, 4}, 0);
  CHECK(stage.answer_type(1) == MessageType::refuse);
  stage.start_assembling();
  stage.depart(rank_at(0));
  stage.propose(1, 4, {1, 2, 3, 4}, 0);
  CHECK(stage.answer_type(1) == MessageType::accept);
}

TEST_CASE("a first generation counts as never begun if all other members have refused to begin it") {
  AmongRanks stage(0, 3);
  stage.tell_statuses({1, 2}, 0, no_state);
  Assembling assembling(stage);
  const std::uint64_t number = stage.hear_proposal(1).first;
  for (const std::uint32_t other : {1, 2}) stage.accept(other, number);
  REQUIRE(assembling.result());
  stage.say(1, encode(RefuseMessage{number + 1, number, {}}));
  CHECK(stage.assembly.phase() == Assembly::Phase::over);
  CHECK(stage.assembly.generation().number == number);  // rank 2 may have begun it
  stage.say(2, encode(RefuseMessage{number + 1, number, {}}));
  CHECK(stage.assembly.generation().number == 0);
  // Now the rank may start with the others, as part of another generation.
  stage.propose(1, number + 2, {0, 1, 2}, 0, lineage + 1);
  CHECK(stage.answer_type(1) == MessageType::accept);
}

TEST_CASE("a member of a generation refuses a proposal of another lineage") {
  AmongRanks stage(1, 3);
  stage.start_generation(1, {0, 1, 2});
  stage.propose(0, 2, {0, 1, 2}, 1, lineage + 1);
  CHECK(stage.answer_type(0) == MessageType::refuse);
  stage.propose(0, 3, {0, 1, 2}, 1);
  CHECK(stage.answer_type(0) == MessageType::accept);
}

TEST_CASE("a proposal is refused if it follows an older generation, and the proposer gets the newer number") {
  AmongRanks stage(1, 3);
  stage.start_generation(4, {0, 1, 2});
  stage.propose(0, 5, {0, 1, 2}, 3);
  const EncodedMessage status = stage.hear(rank_at(0), {MessageType::status});
  CHECK(status.header.generation == 4);
  CHECK(stage.answer_type(0) == MessageType::refuse);
}

TEST_CASE("a rank refuses a proposal that skips a generation from which another rank has sent its status") {
  AmongRanks stage(1, 4);
  stage.start_generation(1, {0, 1, 2, 3});
  // Rank 3 took part in generation 3, and this rank did not. This rank does not know the other members of
  // generation 3.
  stage.tell_status(3, 3, 50);
  REQUIRE(stage.assembly.generation().number == 0);
  stage.propose(0, 9, {0, 1, 2}, 2);
  CHECK(stage.answer_type(0) == MessageType::refuse);
  stage.propose(0, 10, {0, 1, 2}, 3);
  CHECK(stage.answer_type(0) == MessageType::accept);
}

TEST_CASE("a rank leaves its generation if a status shows that the other ranks continue without this rank") {
  AmongRanks stage(1, 3);
  stage.start_generation(1, {0, 1, 2});
  stage.tell_status(0, 2, 30);
  REQUIRE(stage.assembly.generation().number == 0);
  EncodedMessage status;
  do {
    status = stage.hear(rank_at(0), {MessageType::status});
  } while (status.header.generation != 0);
  CHECK(status.header.clock == 10);  // the rank still reports the step of its state
}

TEST_CASE(
    "a rank ends if another lineage of the run is at a later step, or if it is at the same step and its "
    "number is higher") {
  AmongRanks stage(1, 2);
  stage.propose(0, 1, {1, 0}, 0);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  stage.begin(0, 1);
  REQUIRE(stage.assembly.generation().number == 1);
  const auto goes_on_beside = [&](std::uint64_t step) {
    stage.tell_status(0, 1, step, lineage + 1);
    return stage.assembly.phase() == Assembly::Phase::begun;
  };
  CHECK(goes_on_beside(9));
  CHECK(goes_on_beside(no_state));
  SUBCASE("the other run is further") { CHECK_FALSE(goes_on_beside(11)); }
  SUBCASE("both runs are at the same step: the lineage with the higher number stays") {
    CHECK_FALSE(goes_on_beside(10));
  }
  REQUIRE(stage.assembly.phase() == Assembly::Phase::failed);
  CHECK(stage.assembly.failure().code == ExitCode::peers_lost);
}

TEST_CASE(
    "if a rank has lost the source of its state before it received the state, it ends when it hears of any "
    "other lineage") {
  AmongRanks stage(1, 3);
  stage.state.reset();
  stage.start_generation(1, {0, 1});  // from step 10
  stage.tell_status(2, 1, 9, lineage - 1);
  CHECK(stage.assembly.phase() == Assembly::Phase::begun);
  stage.depart(rank_at(0));  // rank 0 had the state
  stage.tell_status(2, 1, 0, lineage - 1);
  CHECK(stage.assembly.phase() == Assembly::Phase::failed);
}

TEST_CASE("a rank refuses a begin message for a generation that it has not accepted, or that it has left") {
  AmongRanks stage(1, 3);
  stage.begin(0, 3);
  CHECK(stage.hear(rank_at(0), {MessageType::refuse}).header.clock == 3);
  stage.propose(2, 4, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(2) == MessageType::accept);
  stage.propose(0, 5, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  REQUIRE(stage.hear(rank_at(2), {MessageType::refuse}).header.clock == 4);
  stage.begin(2, 4);
  CHECK(stage.hear(rank_at(2), {MessageType::refuse}).header.clock == 4);
  CHECK(stage.assembly.generation().number == 0);
  stage.begin(0, 5);
  REQUIRE(stage.assembly.generation().number == 5);
}

TEST_CASE(
    "if a proposal has an incarnation that is not connected, the refusal names the rank of that "
    "incarnation") {
  AmongRanks stage(1, 3);
  PayloadWriter payload;
  payload.put(lineage).put(std::uint32_t{3});
  for (const std::uint32_t rank : {0u, 1u, 2u})
    payload.put(rank).put(stage.incarnation_of(rank_at(rank)) + (rank == 2 ? 1 : 0)).text("");
  // The rank answers when it no longer expects to reach the member.
  stage.say(0, MessageType::propose, 1, 0, 0, payload.bytes());
  Assembling assembling(stage);
  CHECK(stage.hear(rank_at(0), {MessageType::refuse}).header.key == 2 + 1);
  stage.say_trained();
  CHECK_FALSE(assembling.result());
}

TEST_CASE("if all states are equal, the proposer is the source, and no rank receives a state") {
  AmongRanks stage(0, 3);
  stage.tell_statuses({1, 2}, 0, 10);
  Assembling assembling(stage);
  const auto [number, members] = stage.hear_proposal(2);
  CHECK(members == std::set<std::uint32_t>{0, 1, 2});
  for (const std::uint32_t other : {1, 2}) stage.accept(other, number, stage.state);
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(beginning->step == 10);
  CHECK(beginning->source == 0);
  CHECK(beginning->lagging.empty());
  CHECK(stage.assembly.restarts() == 0);
}

TEST_CASE(
    "even if the state of a rank has the newest step, the rank lags if the state comes from an older "
    "generation") {
  AmongRanks stage(0, 4);
  stage.tell_statuses({1, 2, 3}, 0, 10);
  Assembling assembling(stage);
  const auto [number, members] = stage.hear_proposal(1);
  stage.accept(1, number, StateVersion{11, 2});
  stage.accept(2, number, StateVersion{11, 1});
  stage.accept(3, number);
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(beginning->step == 11);
  CHECK(beginning->source == 1);
  CHECK(beginning->lagging == std::set<std::uint32_t>{0, 2, 3});
  const EncodedMessage begin = stage.hear(rank_at(3), {MessageType::begin});
  CHECK(begin.header.generation == number);
  CHECK(begin.header.clock == 11);
  CHECK(begin.header.key == 1);
  CHECK(stage.states_made == 0);
}

TEST_CASE("a proposer makes another proposal if it took long to make its state") {
  AmongRanks stage(0, 2);
  stage.state.reset();
  stage.making = std::chrono::seconds(4);
  stage.tell_statuses({1}, 0, no_state);
  Assembling assembling(stage);
  stage.accept(1, stage.hear_proposal(1).first);
  CHECK(stage.assembly.generation().number == 0);
  stage.accept(1, stage.hear_proposal(1).first);
  REQUIRE(assembling.result());
  CHECK(stage.states_made == 1);
  CHECK(stage.assembly.generation().number == 2);
}

TEST_CASE("two states of the same step and generation differ if their lineages differ") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1});
  stage.depart(rank_at(1));
  stage.tell_statuses({2}, 0, 10);
  Assembling assembling(stage);
  stage.accept(2, stage.hear_proposal(2).first, StateVersion{10, 1, lineage + 1});
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(beginning->lagging.size() == 1);
}

TEST_CASE("if no rank has a state, the proposer makes a single state and sends it to all other ranks") {
  AmongRanks stage(0, 2);
  stage.state.reset();
  stage.tell_statuses({1}, 0, no_state);
  Assembling assembling(stage);
  stage.accept(1, stage.hear_proposal(1).first);
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(stage.states_made == 1);
  CHECK(beginning->source == 0);
  CHECK(beginning->lagging == std::set<std::uint32_t>{1});
}

TEST_CASE("all members receive the number of restarts in the checkpoint") {
  AmongRanks stage(0, 2);
  stage.state.reset();
  stage.known_restarts = 3;
  stage.tell_statuses({1}, 0, no_state);
  Assembling assembling(stage);
  stage.accept(1, stage.hear_proposal(1).first);
  REQUIRE(assembling.result());
  CHECK(stage.assembly.restarts() == 3);
  const EncodedMessage begin = stage.hear(rank_at(1), {MessageType::begin});
  CHECK(PayloadReader(begin.payload).get<std::uint64_t>() == 3);
}

TEST_CASE("an accept message counts for its own proposal, and not for a later one") {
  AmongRanks stage(0, 3);
  stage.tell_statuses({1, 2}, 0, 10);
  Assembling assembling(stage);
  const auto [first, members] = stage.hear_proposal(1);
  stage.say(2, MessageType::refuse, first + 10, first);  // rank 2 has promised another proposal
  const auto [second, again] = stage.hear_proposal(1);
  CHECK(second > first + 10);
  stage.accept(1, first, StateVersion{99, 1});
  stage.accept(2, first, StateVersion{99, 1});
  stage.accept(1, second, StateVersion{10, 1});
  stage.accept(2, second, StateVersion{10, 1});
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(beginning->step == 10);
  CHECK(stage.assembly.generation().number == second);
}

TEST_CASE(
    "when a member is lost, the lowest remaining member proposes, and the new generation counts as a "
    "restart") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1, 2});
  stage.tell_statuses({1, 2}, 1, 10);
  stage.depart(rank_at(2));
  Assembling assembling(stage);
  const auto [number, members] = stage.hear_proposal(1);
  CHECK(members == std::set<std::uint32_t>{0, 1});
  stage.accept(1, number, stage.state);
  REQUIRE(assembling.result());
  CHECK(stage.assembly.restarts() == 1);
  CHECK(stage.assembly.is_lowest_live());
}

TEST_CASE("the next proposal leaves out one of two members that cannot reach each other") {
  AmongRanks stage(0, 4);
  stage.start_generation(1, {0, 1, 2, 3});
  stage.tell_statuses({1, 2, 3}, 1, 10);
  stage.say(1, MessageType::trouble, 1);
  Assembling assembling(stage);
  const auto [first, all] = stage.hear_proposal(1);
  CHECK(all == std::set<std::uint32_t>{0, 1, 2, 3});
  stage.say(3, MessageType::refuse, first, first, 1 + 1);
  const auto [second, rest] = stage.hear_proposal(1);
  CHECK(rest == std::set<std::uint32_t>{0, 1, 2});  // both have one cut: the higher rank is left out
  for (const std::uint32_t other : {1, 2}) stage.accept(other, second, stage.state);
  REQUIRE(assembling.result());
}

TEST_CASE("the next proposal keeps the rank with the higher step if two ranks cannot reach each other") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1});
  stage.tell_status(1, 1, 10);
  stage.tell_status(2, 0, 50, 0);
  Assembling assembling(stage);
  const auto [first, all] = stage.hear_proposal(2);
  CHECK(all == std::set<std::uint32_t>{0, 1, 2});
  stage.say(2, encode(RefuseMessage{first, first, 1}));
  const auto [second, rest] = stage.hear_proposal(2);
  CHECK(rest == std::set<std::uint32_t>{0, 2});
}

TEST_CASE("wants_newcomers() is true only in the lowest live member, and only if a rank waits to be let in") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1});
  CHECK_FALSE(stage.assembly.wants_newcomers(stage.now));
  stage.tell_statuses({2}, 0, no_state);
  CHECK(stage.assembly.wants_newcomers(stage.now));

  AmongRanks higher(1, 3);
  higher.start_generation(1, {0, 1});
  higher.tell_statuses({2}, 0, no_state);
  CHECK_FALSE(higher.assembly.wants_newcomers(higher.now));
  higher.depart(rank_at(0));
  CHECK(higher.assembly.wants_newcomers(higher.now));
}

TEST_CASE("a rank sends its generation, its step and its lineage to a peer that connects") {
  AmongRanks stage(1, 2);
  stage.state = StateVersion{40, 1};
  stage.start_generation(3, {0, 1});
  stage.arrive(rank_at(0));
  const EncodedMessage status = stage.hear(rank_at(0), {MessageType::status});
  CHECK(status.header.generation == 3);
  CHECK(status.header.clock == 40);
  CHECK(PayloadReader(status.payload).get<std::uint64_t>() == lineage);
}

TEST_CASE("a rank sends its status to a rank that is behind and has another lineage") {
  AmongRanks stage(1, 2);
  stage.start_generation(1, {0, 1});
  (void)stage.was_told(rank_at(0), MessageType::status);  // drops the earlier statuses to rank 0
  stage.tell_status(0, 1, 9, lineage + 1);
  CHECK(stage.was_told(rank_at(0), MessageType::status));
}
