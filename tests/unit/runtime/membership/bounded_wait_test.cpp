#include "runtime/membership/bounded_wait.h"

#include <doctest/doctest.h>

#include "runtime/membership/effects.h"

TEST_SUITE_BEGIN("runtime/membership/bounded_wait");

using namespace mlk::rt;
using std::chrono::seconds;

TEST_CASE("a wait is logged after 2 s, then every 10 s, and fails beyond its limit") {
  const SteadyTime start{seconds(1000)};
  BoundedWait wait;
  wait.restart(start);
  Effects effects;
  const auto lines_at = [&](Milliseconds time) {
    CHECK_FALSE(wait.missing({"worker 1"}, seconds(30), start + time, effects));
    return effects.in_order.size();
  };
  CHECK(wait.next(seconds(30)) == start + seconds(2));
  CHECK(lines_at(Milliseconds(1999)) == 0);
  CHECK(lines_at(Milliseconds(2000)) == 1);
  CHECK(std::get<Effects::Line>(effects.in_order[0]).text == "waiting for worker 1 (2 s)");
  CHECK(wait.next(seconds(30)) == start + seconds(12));
  CHECK(lines_at(Milliseconds(11999)) == 1);
  CHECK(lines_at(Milliseconds(12000)) == 2);
  CHECK(lines_at(Milliseconds(30000)) == 3);
  CHECK(wait.next(seconds(30)) == start + seconds(30) + Milliseconds(1));
  const auto failure = wait.missing({"worker 1"}, seconds(30), wait.next(seconds(30)), effects);
  REQUIRE(failure);
  CHECK(failure->code == ExitCode::peers_lost);
  CHECK(failure->what() == std::string("gave up waiting for worker 1 (30 s)"));

  wait.restart(start + seconds(40));
  CHECK(wait.seconds(start + seconds(42)) == 2);
  CHECK_FALSE(wait.missing({"worker 1"}, seconds(30), start + seconds(41), effects));
}

TEST_CASE("after extend(), a wait lasts for its limit again, but at most for twice the limit in all") {
  const SteadyTime start{seconds(1000)};
  BoundedWait wait;
  wait.restart(start);
  Effects effects;
  wait.extend(seconds(30), start + seconds(20));
  CHECK_FALSE(wait.missing({"worker 1"}, seconds(30), start + seconds(50), effects));
  wait.extend(seconds(30), start + seconds(45));
  CHECK_FALSE(wait.missing({"worker 1"}, seconds(30), start + seconds(60), effects));
  const auto failure = wait.missing({"worker 1"}, seconds(30), start + seconds(61), effects);
  REQUIRE(failure);
  CHECK(failure->what() == std::string("gave up waiting for worker 1 (61 s)"));
}
