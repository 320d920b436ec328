#include "runtime/metrics/pace.h"

#include <limits>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/metrics/pace");

using namespace mlk::rt;

namespace {

// Adds the first step of a rank, and further steps.
void settle(Pace& pace, std::uint32_t rank, double seconds) {
  pace.add(rank, 100);
  for (int step = 0; step < 20; ++step) pace.add(rank, seconds);
}

}  // namespace

TEST_CASE("only a rank that is clearly slower than the median is named") {
  Pace pace;
  CHECK_FALSE(pace.slowest());
  settle(pace, 0, 1);
  CHECK_FALSE(pace.slowest());  // there is no other rank to compare with
  settle(pace, 1, 1.4);
  CHECK_FALSE(pace.slowest());
  settle(pace, 2, 1.1);
  settle(pace, 3, 1.9);
  CHECK(pace.slowest() == 3);
  pace.add(4, 100);  // a newcomer's first step
  CHECK(pace.slowest() == 3);
  pace.leave(3);
  CHECK_FALSE(pace.slowest());
}

TEST_CASE("the slower of two ranks can be named") {
  Pace pace;
  settle(pace, 4, 3);
  settle(pace, 7, 1);
  CHECK(pace.slowest() == 4);
}

TEST_CASE("the mean duration for a rank with few steps is the mean of all these steps except the first") {
  Pace pace;
  settle(pace, 0, 1);
  for (const double seconds : {100.0, 4.0, 1.0, 1.0}) pace.add(1, seconds);
  CHECK(pace.slowest() == 1);  // the mean is 2
  for (int step = 0; step < 4; ++step) pace.add(1, 1);
  CHECK_FALSE(pace.slowest());  // the mean is 10 / 7
}

TEST_CASE("a rank with one slow step is not named, and a rank with several slow steps is named") {
  Pace pace;
  for (const std::uint32_t rank : {0u, 1u, 2u}) settle(pace, rank, 1);
  pace.add(1, 5);
  CHECK_FALSE(pace.slowest());
  for (int step = 0; step < 20; ++step) pace.add(1, 5);
  CHECK(pace.slowest() == 1);
  for (int step = 0; step < 60; ++step) pace.add(1, 1);
  CHECK_FALSE(pace.slowest());
}

TEST_CASE("a step time that is not positive is ignored") {
  Pace pace;
  for (int step = 0; step < 3; ++step) {
    pace.add(0, 1);
    pace.add(1, 0);
    pace.add(2, -1);
    pace.add(3, std::numeric_limits<double>::quiet_NaN());
  }
  CHECK_FALSE(pace.slowest());
}
