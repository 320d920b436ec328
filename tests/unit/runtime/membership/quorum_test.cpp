// Which members of a generation may continue without which other members, and with which state.
#include <chrono>
#include <set>

#include <doctest/doctest.h>

#include "runtime/membership/assembly.h"
#include "tests/unit/runtime/among_ranks.h"

TEST_SUITE_BEGIN("runtime/membership/quorum");

using namespace mlk::rt;
using namespace mlk::test;

TEST_CASE(
    "the remaining one of two members continues if it has a state, and otherwise waits for the minimum") {
  AmongRanks stage(0, 2, [](AssemblySettings& settings) { settings.minimum = 2; });
  stage.start_generation(1, {0, 1});
  stage.depart(rank_at(1));
  SUBCASE("without a state") {
    stage.state.reset();
    CHECK(stage.gives_up() == "gave up waiting for worker 1 (900 s)");
    CHECK(stage.assembly.generation().number == 1);
  }
  SUBCASE("with a state") {
    REQUIRE(Assembling(stage).result());
    CHECK(stage.assembly.generation() == Generation{2, {{0, stage.incarnation_of(rank_at(0))}}});
    CHECK(stage.assembly.restarts() == 1);
    CHECK(stage.states_made == 0);
  }
}

TEST_CASE("fewer members than the minimum continue if one of them has a state") {
  AmongRanks stage(0, 3, [](AssemblySettings& settings) { settings.minimum = 3; });
  stage.start_generation(1, {0, 1, 2});
  stage.tell_statuses({1, 2}, 1, 10);
  stage.depart(rank_at(2));
  stage.state.reset();
  Assembling assembling(stage);
  const auto [number, members] = stage.hear_proposal(1);
  CHECK(members == std::set<std::uint32_t>{0, 1});
  stage.accept(1, number, StateVersion{10, 1});
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(beginning->source == 1);
  CHECK(beginning->lagging == std::set<std::uint32_t>{0});
  CHECK(stage.states_made == 0);
}

TEST_CASE("a rank continues without a lower rank if the death of the lower rank is proven") {
  AmongRanks stage(1, 2);
  stage.start_generation(1, {0, 1});
  SUBCASE(
      "the end is proven: the rank continues 1 s later, since a live rank would have dialled again by then") {
    stage.depart(rank_at(0));
    const SteadyTime lost = stage.now;
    REQUIRE(Assembling(stage).result());
    CHECK(stage.now == lost + std::chrono::seconds(1));
    CHECK(stage.assembly.generation() == Generation{2, {{1, stage.incarnation_of(rank_at(1))}}});
    return;
  }
  stage.hears_of(0, Event::Kind::down);
  CHECK(stage.gives_up() == "gave up waiting for worker 0 (900 s)");
  CHECK(stage.assembly.generation().number == 1);
  stage.arrive(rank_at(0));
  stage.tell_statuses({0}, 0, no_state);
  Assembling assembling(stage);
  const auto [number, members] = stage.hear_proposal(0);
  CHECK(number == 2);
  CHECK(members == std::set<std::uint32_t>{0, 1});
  stage.accept(0, number);
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(beginning->lagging == std::set<std::uint32_t>{0});
  CHECK(stage.assembly.restarts() == 1);
}

TEST_CASE(
    "a rank does not continue alone if the lost members may have let in a rank that this rank cannot reach") {
  AmongRanks stage(2, 3);
  stage.depart(rank_at(1));
  stage.start_generation(1, {0, 2});
  const auto goes_on = [&] {
    Assembling assembling(stage);
    for (int timers = 0; timers < 30 && stage.assembly.phase() == Assembly::Phase::assembling; ++timers)
      stage.pass();
    return stage.assembly.phase() == Assembly::Phase::begun;
  };
  stage.hears_of(1, Event::Kind::silent);
  SUBCASE("rank 0 has not reported that it has begun the generation") {
    stage.depart(rank_at(0));
    CHECK_FALSE(goes_on());
  }
  stage.tell_status(0, 1, 10);
  SUBCASE("rank 0 was heard until it ended") {
    stage.depart(rank_at(0));
    CHECK(goes_on());
  }
  SUBCASE("rank 0 was silent for a while") {
    stage.hears_of(0, Event::Kind::silent);
    stage.hears_of(0, Event::Kind::audible);
    stage.depart(rank_at(0));
    CHECK_FALSE(goes_on());
  }
  SUBCASE("rank 0 has left the generation") {
    stage.say(0, MessageType::trouble, 1);
    stage.depart(rank_at(0));
    CHECK_FALSE(goes_on());
  }
  SUBCASE("rank 0 has left the generation, and rank 1 is dead: its next process may have been let in") {
    stage.say(0, MessageType::trouble, 1);
    stage.depart(rank_at(1));
    stage.depart(rank_at(0));
    CHECK_FALSE(goes_on());
  }
  SUBCASE("rank 0 has left the generation, and rank 1 is known to be behind") {
    stage.say(0, MessageType::trouble, 1);
    stage.depart(rank_at(0));
    stage.arrive(rank_at(1));
    stage.tell_status(1, 0, no_state, 0);
    Assembling assembling(stage);
    const auto [number, members] = stage.hear_proposal(1);
    CHECK(members == std::set<std::uint32_t>{1, 2});
  }
}

TEST_CASE(
    "a lost member counts as dead if it had left the generation and could not continue without this rank") {
  AmongRanks stage(0, 3);
  stage.depart(rank_at(1));
  stage.start_generation(1, {0, 2});
  stage.say(2, MessageType::trouble, 1);
  stage.depart(rank_at(2));
  Assembling assembling(stage);
  CHECK(assembling.result());  // rank 0 is half of the members, and has the lowest rank
}

TEST_CASE(
    "members without the state of their generation wait for the members that have it, until these are dead") {
  AmongRanks stage(0, 3);
  stage.propose(1, 1, {0, 1}, 0);
  REQUIRE(stage.answer_type(1) == MessageType::accept);
  stage.say(1, encode(BeginMessage{1, 30, 0, 1, {0}}));  // this rank is at step 10
  stage.hears_of(1, Event::Kind::silent);
  stage.tell_status(2, 0, no_state, 0);
  stage.start_assembling();
  for (int timers = 0; timers < 5; ++timers) stage.pass();
  CHECK_FALSE(stage.was_told(rank_at(2), MessageType::propose));
  stage.depart(rank_at(1));
  CHECK(stage.hear_proposal(2).second == std::set<std::uint32_t>{0, 2});
}

TEST_CASE("members without the state of their generation wait for a rank that they have never met") {
  AmongRanks stage(0, 3, [](AssemblySettings& settings) { settings.workers = 4; });
  stage.propose(1, 1, {0, 1}, 0);
  REQUIRE(stage.answer_type(1) == MessageType::accept);
  stage.say(1, encode(BeginMessage{1, 30, 0, 1, {0}}));  // this rank is at step 10
  stage.tell_status(1, 1, 30);
  stage.depart(rank_at(1));
  stage.tell_status(2, 0, no_state, 0);
  stage.start_assembling();
  for (int timers = 0; timers < 5; ++timers) stage.pass();
  CHECK_FALSE(stage.was_told(rank_at(2), MessageType::propose));
  stage.arrive(rank_at(3));
  stage.tell_status(3, 0, no_state, 0);
  CHECK(stage.hear_proposal(2).second == std::set<std::uint32_t>{0, 2, 3});
}

TEST_CASE(
    "members without the state of their generation wait for any rank that has it, until this rank is dead") {
  AmongRanks stage(0, 3);
  stage.propose(1, 1, {0, 1}, 0);
  REQUIRE(stage.answer_type(1) == MessageType::accept);
  stage.say(1, encode(BeginMessage{1, 30, 0, 1, {0}}));  // this rank is at step 10
  stage.tell_status(1, 1, 30);
  stage.tell_status(2, 0, 31, 0);
  stage.hears_of(2, Event::Kind::silent);
  stage.depart(rank_at(1));
  stage.start_assembling();
  for (int timers = 0; timers < 5; ++timers) stage.pass();
  CHECK(stage.assembly.phase() == Assembly::Phase::assembling);
  stage.depart(rank_at(2));
  for (int timers = 0; timers < 5 && stage.assembly.phase() == Assembly::Phase::assembling; ++timers)
    stage.pass();
  CHECK(stage.assembly.phase() == Assembly::Phase::begun);
}
