// Which later proposals a rank refuses because of the proposals that it has accepted before.
#include <doctest/doctest.h>

#include "runtime/membership/assembly.h"
#include "tests/unit/runtime/among_ranks.h"

TEST_SUITE_BEGIN("runtime/membership/binding_promises");

using namespace mlk::rt;
using namespace mlk::test;

TEST_CASE(
    "after a rank has accepted a proposal, it refuses another process's proposal that has a minority of the "
    "same members") {
  AmongRanks stage(2, 5);
  stage.start_generation(1, {0, 1, 2, 3, 4});
  stage.propose(0, 2, {0, 1, 2}, 1);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  // Generation 2 may have begun: 0 and 1 are enough of {0, 1, 2} to continue, and 3 and 4 may not reach them.
  stage.propose(3, 3, {2, 3, 4}, 1);
  const EncodedMessage refusal = stage.answer(3);
  CHECK(refusal.header.type == MessageType::refuse);
  CHECK(refusal.header.generation == 2);  // the number that the rank has promised
  CHECK(refusal.header.clock == 3);       // the number that the rank refuses
}

TEST_CASE(
    "after a rank has accepted a proposal, it accepts later ones from the same process, and later ones with "
    "a majority of the same members") {
  AmongRanks stage(2, 5);
  stage.start_generation(1, {0, 1, 2, 3, 4});
  stage.propose(0, 2, {0, 1, 2}, 1);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  stage.propose(0, 3, {0, 2}, 1);  // the proposer knows that its proposal 2 has not begun
  CHECK(stage.answer_type(0) == MessageType::accept);
  stage.propose(1, 4, {0, 1, 2, 3}, 1);  // with all members of proposal 3
  CHECK(stage.answer_type(1) == MessageType::accept);
}

TEST_CASE("when a promised generation has begun, the promise no longer prevents other proposals") {
  AmongRanks stage(2, 5);
  stage.start_generation(1, {0, 1, 2, 3, 4});
  stage.start_generation(2, {0, 1, 2}, 1);
  // A proposal that follows generation 2 needs a majority of generation 2, and not of an earlier promise.
  stage.propose(1, 3, {1, 2}, 2);
  CHECK(stage.answer_type(1) == MessageType::accept);
}

TEST_CASE("the acceptance of the first generation binds a member only until this generation has begun") {
  AmongRanks stage(2, 5);
  stage.start_generation(1, {0, 1, 2, 3, 4});
  stage.propose(1, 2, {1, 2}, 1);  // the other members are dead, as far as rank 1 knows
  CHECK(stage.answer_type(1) == MessageType::accept);
}

TEST_CASE("a rank is bound by all generations that it has accepted, until one of them has begun") {
  AmongRanks stage(4, 5);
  stage.start_generation(1, {0, 1, 2, 3, 4});
  stage.propose(2, 2, {1, 2, 3, 4}, 1);
  REQUIRE(stage.answer_type(2) == MessageType::accept);
  stage.propose(0, 3, {0, 2, 3, 4}, 1);  // with a majority of the ranks that may be in generation 2
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  stage.propose(0, 4, {0, 4}, 1);  // generation 3 has not begun, but 2 may have
  CHECK(stage.answer_type(0) == MessageType::refuse);
}

TEST_CASE("an accepted proposal does not bind a rank that is in no generation") {
  AmongRanks stage(1, 5);
  stage.propose(2, 2, {1, 2}, 0);
  REQUIRE(stage.answer_type(2) == MessageType::accept);
  stage.propose(0, 3, {0, 1, 3, 4}, 0);
  CHECK(stage.answer_type(0) == MessageType::accept);
}

TEST_CASE(
    "a rank is a member of a generation that it has accepted, even if the begin message has not arrived") {
  AmongRanks stage(2, 3);
  stage.propose(0, 1, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  stage.propose(1, 2, {1, 2}, 1);  // generation 1 has begun, as rank 1 knows
  REQUIRE(stage.answer_type(1) == MessageType::accept);
  stage.propose(0, 3, {0, 2}, 1);
  CHECK(stage.answer_type(0) == MessageType::refuse);
  stage.tell_status(0, 3, 10);  // the run has gone on: generation 2 did not begin
  stage.propose(0, 4, {0, 2}, 3);
  CHECK(stage.answer_type(0) == MessageType::accept);
}

TEST_CASE("a rank forgets its accepted proposals if a status shows that the run has continued without it") {
  AmongRanks stage(2, 5);
  stage.start_generation(1, {0, 1, 2, 3, 4});
  stage.propose(0, 2, {0, 1, 2}, 1);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  stage.tell_status(3, 7, 50);
  REQUIRE(stage.assembly.generation().number == 0);
  stage.begin(0, 2);  // that generation is over already
  CHECK(stage.assembly.generation().number == 0);
  stage.propose(3, 8, {2, 3, 4}, 7);
  CHECK(stage.answer_type(3) == MessageType::accept);
}

TEST_CASE("a rank keeps a promise for a later generation when an earlier generation has begun") {
  AmongRanks stage(4, 5);
  stage.start_generation(1, {0, 1, 2, 3, 4});
  stage.propose(2, 2, {2, 3, 4}, 1);
  REQUIRE(stage.answer_type(2) == MessageType::accept);
  stage.propose(1, 3, {1, 3, 4}, 1);  // with a majority of the members of generation 2
  REQUIRE(stage.answer_type(1) == MessageType::accept);
  stage.tell_status(2, 2, 10);
  REQUIRE(stage.assembly.generation().number == 0);
  stage.propose(2, 4, {2, 4}, 2);
  CHECK(stage.answer_type(2) == MessageType::refuse);
}

TEST_CASE(
    "if other ranks continue from a generation that a newcomer has accepted, later acceptances also bind the "
    "newcomer") {
  AmongRanks stage(1, 4);
  stage.propose(0, 2, {0, 1, 2, 3}, 1);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  stage.propose(2, 3, {1, 2, 3}, 1);
  REQUIRE(stage.answer_type(2) == MessageType::accept);
  SUBCASE("the proposal has too few members of the proposal accepted later") {
    stage.propose(0, 4, {0, 1}, 2);
    CHECK(stage.answer_type(0) == MessageType::refuse);
  }
  SUBCASE("the proposal has enough members of the proposal accepted later") {
    stage.propose(0, 4, {0, 1, 2, 3}, 2);
    CHECK(stage.answer_type(0) == MessageType::accept);
  }
}
