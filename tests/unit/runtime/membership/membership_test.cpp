// The rule that decides which members may continue, as a table.
#include "runtime/membership/membership.h"

#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/membership/membership");

using namespace mlk::rt;

namespace {

// One letter per rank from 0: l live, s silent, d dead.
bool decide(const std::string& standings) {
  Generation last{1, {}};
  std::map<std::uint32_t, Standing> known;
  for (std::uint32_t rank = 0; rank < standings.size(); ++rank) {
    last.members.push_back({rank, rank + 100});
    const char c = standings[rank];
    known[rank] = c == 'l' ? Standing::live : c == 's' ? Standing::silent : Standing::dead;
  }
  return may_form_next(last, known);
}

}  // namespace

TEST_CASE(
    "live members may continue if they are a majority, or a half with the lowest rank, or if all others are "
    "dead") {
  CHECK(decide("lll"));
  CHECK(decide("lld"));
  CHECK(decide("ldd"));  // all others are dead
  CHECK(decide("ddl"));
  CHECK(decide("lls"));
  CHECK_FALSE(decide("lss"));
  CHECK(decide("sll"));
  CHECK(decide("ls"));  // a tie goes to the side of the lowest rank
  CHECK_FALSE(decide("sl"));
  CHECK(decide("dl"));
  CHECK_FALSE(decide("dlls"));  // the dead members may have voted for the silent ones
  CHECK_FALSE(decide("dls"));
  CHECK_FALSE(decide("lds"));
  CHECK(decide("ddlll"));
  CHECK_FALSE(decide("dsl"));
  CHECK_FALSE(decide("dddsls"));
  CHECK_FALSE(decide("dddd"));
  CHECK_FALSE(decide(""));
}

TEST_CASE("exactly one of two sides that cannot hear each other may continue, for every split") {
  for (int size = 1; size <= 7; ++size) {
    for (int side = 0; side < 1 << size; ++side) {
      std::string one, other;
      for (int rank = 0; rank < size; ++rank) {
        const bool in_one = side >> rank & 1;
        one += in_one ? 'l' : 's';
        other += in_one ? 's' : 'l';
      }
      CHECK(decide(one) != decide(other));
    }
  }
}

TEST_CASE("a member of unknown standing counts as silent, and not as dead") {
  const Generation last{4, {{0, 1}, {1, 1}, {2, 1}}};
  CHECK_FALSE(may_form_next(last, {{2, Standing::live}}));
  CHECK(may_form_next(last, {{1, Standing::live}, {2, Standing::live}}));
}

TEST_CASE("a run starts at once if all processes are there, and with fewer processes after a grace period") {
  CHECK(may_start(4, 4, 2, 0));
  CHECK_FALSE(may_start(3, 4, 2, 0));
  CHECK(may_start(3, 4, 2, start_grace_seconds));
  CHECK_FALSE(may_start(1, 4, 2, 1000));
}

TEST_CASE("waiting_line() names the missing processes and the seconds that the wait has taken") {
  CHECK(waiting_line({"worker 1", "server 0"}, 2.9) == "waiting for worker 1, server 0 (2 s)");
}

TEST_CASE(
    "two ranks that cannot reach each other are kept apart for 5 s, then twice as long each time, 60 s at "
    "most") {
  std::chrono::seconds pause{0};
  for (const int expected : {5, 10, 20, 40, 60, 60}) {
    pause = cut_pause(pause);
    CHECK(pause == std::chrono::seconds(expected));
  }
}

TEST_CASE("the side with the lowest rank wins a tie, in any order of the list of members") {
  const Generation last{1, {{3, 1}, {1, 1}}};
  CHECK(may_form_next(last, {{1, Standing::live}}));
  CHECK_FALSE(may_form_next(last, {{3, Standing::live}}));
  CHECK_FALSE(may_form_next(last, {{0, Standing::live}}));
}

TEST_CASE("contains() looks for a member by its rank and incarnation, and index_of() only by its rank") {
  const Generation generation{2, {{0, 10}, {2, 12}, {5, 15}}};
  CHECK(generation.contains({2, 12}));
  CHECK_FALSE(generation.contains({2, 10}));
  CHECK_FALSE(generation.contains({1, 12}));
  CHECK(generation.index_of(0) == 0);
  CHECK(generation.index_of(2) == 1);
  CHECK(generation.index_of(5) == 2);
  CHECK_FALSE(generation.index_of(1));
  CHECK_FALSE(Generation().index_of(0));
  CHECK(Generation() == Generation{0, {}});
  CHECK(Member() == Member{0, 0});
}

TEST_CASE("after 3 s, a run may start without some processes, but with at least the minimum") {
  CHECK(start_grace_seconds == 3);
  CHECK_FALSE(may_start(2, 4, 2, 2.99));
  CHECK(may_start(2, 4, 2, 3));
  CHECK(may_start(5, 4, 2, 0));
  CHECK(waiting_line({"worker 1"}, 0) == "waiting for worker 1 (0 s)");
}
