// What a rank knows of the end of the run, and of the ranks that have ended.
#include <chrono>

#include <doctest/doctest.h>

#include "runtime/membership/assembly.h"
#include "tests/unit/runtime/among_ranks.h"

TEST_SUITE_BEGIN("runtime/membership/assembly_end");

using namespace mlk::rt;
using namespace mlk::test;

TEST_CASE("a rank that hears that the run is trained stops waiting for a generation, and keeps the result") {
  AmongRanks stage(1, 2);
  Assembling assembling(stage);
  stage.say_trained();
  CHECK_FALSE(assembling.result());
  CHECK(stage.assembly.phase() == Assembly::Phase::trained);
  CHECK(stage.assembly.result() == "its result");
}

TEST_CASE("a rank that connects after the end hears that the run is trained") {
  AmongRanks stage(0, 2);
  stage.start_generation(1, {0, 1});
  stage.tell_trained("the result");
  CHECK(PayloadReader(stage.hear(rank_at(1), {MessageType::done}).payload).text() == "the result");
  stage.depart(rank_at(1));
  stage.arrive(rank_at(1));
  const EncodedMessage done = stage.hear(rank_at(1), {MessageType::done});
  CHECK(PayloadReader(done.payload).text() == "the result");
}

TEST_CASE("a rank counts as knowing that the run is trained only when it has ended with exit code 0") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1, 2});
  stage.tell_trained("the result");
  stage.end(rank_at(1), ExitCode::trained);
  CHECK_FALSE(stage.assembly.all_have_left());
  stage.end(rank_at(2), ExitCode::internal_error);  // it was lost before its end
  CHECK_FALSE(stage.assembly.all_have_left());
  stage.arrive(rank_at(2));
  stage.end(rank_at(2), ExitCode::trained);
  CHECK(stage.assembly.all_have_left());
}

TEST_CASE("a rank that has not ended well is present while it is connected, and lost while it is not") {
  AmongRanks stage(0, 3);
  CHECK(stage.assembly.somebody_is_there());
  CHECK_FALSE(stage.assembly.last_loss());
  stage.end(rank_at(1), ExitCode::trained);
  CHECK(stage.assembly.somebody_is_there());
  CHECK_FALSE(stage.assembly.last_loss());
  stage.depart(rank_at(2));
  CHECK_FALSE(stage.assembly.somebody_is_there());
  REQUIRE(stage.assembly.last_loss());
  CHECK(*stage.assembly.last_loss() == stage.now);
  stage.arrive(rank_at(2));
  CHECK(stage.assembly.somebody_is_there());
  CHECK_FALSE(stage.assembly.last_loss());
}

TEST_CASE("a rank that was silent when the run was trained hears of the end when it is heard again") {
  AmongRanks stage(0, 2);
  stage.start_generation(1, {0, 1});
  stage.hears_of(1, Event::Kind::silent);
  stage.tell_trained("the result");
  CHECK_FALSE(stage.was_told(rank_at(1), MessageType::done));
  stage.hears_of(1, Event::Kind::audible);
  CHECK(stage.was_told(rank_at(1), MessageType::done));
}

TEST_CASE("a rank that this process never met counts as lost when this process began") {
  AmongRanks stage(0, 2, [](AssemblySettings& settings) { settings.workers = 3; });
  stage.start_assembling();
  const SteadyTime began = stage.now;
  stage.now += std::chrono::seconds(5);
  stage.end(rank_at(1), ExitCode::trained);
  REQUIRE(stage.assembly.last_loss());
  CHECK(*stage.assembly.last_loss() == began);
}
