#include "runtime/membership/cuts.h"

#include <set>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/membership/cuts");

using namespace mlk::rt;
using std::chrono::seconds;

namespace {

using Ranks = std::set<std::uint32_t>;

SteadyTime at(int s) { return SteadyTime{} + seconds(s); }

Cuts::About about(const Ranks& behind = {}, const Ranks& members = {0, 1, 2, 3, 4}) {
  return {.is_behind = [behind](std::uint32_t rank) { return behind.contains(rank); },
          .is_member = [members](std::uint32_t rank) { return members.contains(rank); }};
}

}  // namespace

TEST_CASE(
    "a pair of ranks that cannot reach each other is kept apart for 5 s, then for twice as long each time") {
  Cuts cuts;
  CHECK(cuts.note(2, 1, at(0)) == Cuts::Noted::first);
  CHECK(cuts.note(1, 2, at(4)) == Cuts::Noted::known);  // the other rank reports the same cut
  CHECK(cuts.left_out(at(4), about()) == Ranks{2});
  CHECK(cuts.left_out(at(5), about()).empty());
  CHECK(cuts.note(1, 2, at(5)) == Cuts::Noted::again);
  CHECK(cuts.left_out(at(14), about()) == Ranks{2});
  CHECK(cuts.left_out(at(15), about()).empty());
}

TEST_CASE("forget() ends the exclusion of a pair, and the next cut counts as the first") {
  Cuts cuts;
  cuts.note(1, 2, at(0));
  cuts.note(3, 4, at(0));
  cuts.forget([](std::uint32_t one, std::uint32_t other) { return one == 1 && other == 2; });
  CHECK(cuts.left_out(at(1), about()) == Ranks{4});
  CHECK(cuts.note(2, 1, at(1)) == Cuts::Noted::first);
}

TEST_CASE("left_out() names the rank with the most broken links first, and no more ranks than needed") {
  Cuts cuts;
  for (const std::uint32_t other : {0u, 2u, 3u}) cuts.note(1, other, at(0));
  CHECK(cuts.left_out(at(1), about()) == Ranks{1});
  cuts.note(2, 3, at(0));
  CHECK(cuts.left_out(at(1), about()) == Ranks{1, 3});
}

TEST_CASE("left_out() names the rank that is behind, else the non-member, else the higher rank") {
  Cuts cuts;
  cuts.note(1, 2, at(0));
  CHECK(cuts.left_out(at(1), about()) == Ranks{2});
  CHECK(cuts.left_out(at(1), about({}, {0, 2})) == Ranks{1});
  CHECK(cuts.left_out(at(1), about({1}, {0, 1})) == Ranks{1});
  // Being behind has priority over the number of broken links.
  cuts.note(2, 3, at(0));
  CHECK(cuts.left_out(at(1), about({1, 3})) == Ranks{1, 3});
}

TEST_CASE("for_each_end() gives for every pair the time at which the pair is no longer kept apart") {
  Cuts cuts;
  cuts.note(1, 2, at(0));
  cuts.note(1, 3, at(2));
  std::set<SteadyTime> ends;
  cuts.for_each_end([&](SteadyTime time) { ends.insert(time); });
  CHECK(ends == std::set{at(5), at(7)});
}
