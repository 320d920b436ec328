// What a rank knows of the end of the run, and of the ranks that have ended.
#include <chrono>

#include <doctest/doctest.h>

#include "runtime/membership/assembly.h"
#include "tests/unit/runtime/among_ranks.h"

TEST_SUITE_BEGIN("runtime/membership/assembly_end");

using namespace mlk::rt;
using namespace mlk::test;

TEST_CASE("when a rank gets a done message, it stops waiting for a generation, and stores the result") {
  AmongRanks stage(1, 2);
  Assembling assembling(stage);
  stage.say_trained();
  CHECK_FALSE(assembling.result());
  CHECK(stage.assembly.phase() == Assembly::Phase::trained);
  CHECK(stage.assembly.result() == "its result");
}

TEST_CASE("if a rank connects after the end of the run, it gets a done message with the result") {
  AmongRanks stage(0, 2);
  stage.start_generation(1, {0, 1});
  stage.report_trained("the result");
  CHECK(PayloadReader(stage.hear(rank_at(1), {MessageType::done}).payload).text() == "the result");
  stage.depart(rank_at(1));
  stage.arrive(rank_at(1));
  const EncodedMessage done = stage.hear(rank_at(1), {MessageType::done});
  CHECK(PayloadReader(done.payload).text() == "the result");
}

TEST_CASE("all_have_left() is true when all other ranks have ended with exit code 0") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1, 2});
  stage.report_trained("the result");
  stage.end(rank_at(1), ExitCode::trained);
  CHECK_FALSE(stage.assembly.all_have_left());
  stage.end(rank_at(2), ExitCode::internal_error);  // another exit code does not count
  CHECK_FALSE(stage.assembly.all_have_left());
  stage.arrive(rank_at(2));
  stage.end(rank_at(2), ExitCode::trained);
  CHECK(stage.assembly.all_have_left());
}

TEST_CASE("somebody_is_there() is true while another rank is connected and has not ended with exit code 0") {
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

TEST_CASE("if a rank was silent at the end of the run, it gets a done message when it is audible again") {
  AmongRanks stage(0, 2);
  stage.start_generation(1, {0, 1});
  stage.hears_of(1, Event::Kind::silent);
  stage.report_trained("the result");
  CHECK_FALSE(stage.was_told(rank_at(1), MessageType::done));
  stage.hears_of(1, Event::Kind::audible);
  CHECK(stage.was_told(rank_at(1), MessageType::done));
}

TEST_CASE("if a rank was never connected, it counts as lost since the start of this process") {
  AmongRanks stage(0, 2, [](AssemblySettings& settings) { settings.workers = 3; });
  stage.start_assembling();
  const SteadyTime began = stage.now;
  stage.now += std::chrono::seconds(5);
  stage.end(rank_at(1), ExitCode::trained);
  REQUIRE(stage.assembly.last_loss());
  CHECK(*stage.assembly.last_loss() == began);
}
