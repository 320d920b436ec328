#include "cli/run/read/late_lines.h"

#include <doctest/doctest.h>

using namespace mlk;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST_CASE(
    "lines may be late if a program ended less than ten seconds ago by either clock, but not while it runs") {
  const Time now = *parse_time("2026-11-27T10:00:00Z");
  CHECK(may_have_late_lines(now, now));
  CHECK(may_have_late_lines(now - 9s, now));
  CHECK(may_have_late_lines(now + 9s, now));
  CHECK_FALSE(may_have_late_lines(now - 10s, now));
  CHECK_FALSE(may_have_late_lines(now + 10s, now));
  CHECK_FALSE(may_have_late_lines(std::nullopt, now));
}

TEST_CASE("a log that lacks a line is read again at most five times, and not after the deadline") {
  int readings = 0;
  const auto read = [&] { ++readings; };
  CHECK(read_late_lines([] { return false; }, read, steady_clock::now()));
  CHECK(readings == 0);
  CHECK(read_late_lines([&] { return readings < 2; }, read, steady_clock::now() + 1h));
  CHECK(readings == 2);
  CHECK(read_late_lines([] { return true; }, read, steady_clock::now() + 1h));
  CHECK(readings == 7);
  CHECK_FALSE(read_late_lines([] { return true; }, read, steady_clock::now() + 100ms));
  CHECK(readings == 7);
}
