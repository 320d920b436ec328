#include "runtime/membership/promises.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/membership/promises");

using namespace mlk::rt;

namespace {

constexpr std::uint64_t promised_here = 7, promised_elsewhere = 8;
const Member one{1, 11}, two{2, 22}, three{3, 33};

Proposal proposal(std::uint64_t number, std::uint64_t follows, std::vector<Member> members,
                  std::uint64_t of = promised_here) {
  return {number, follows, of, std::move(members)};
}

// The numbers of the promises that a proposal of this process would have to outvote.
std::set<std::uint64_t> bound_by(const Promises& promises, Member proposer) {
  std::set<std::uint64_t> numbers;
  promises.are_kept(proposer, [&](const Proposal& promised) {
    numbers.insert(promised.number);
    return true;
  });
  return numbers;
}

using Numbers = std::set<std::uint64_t>;

}  // namespace

TEST_CASE("a member is bound by the last accepted proposal of each process, and not by earlier ones") {
  Promises promises;
  CHECK(promises.empty());
  promises.accepted(one, proposal(4, 3, {one, two}), true);
  promises.accepted(two, proposal(5, 3, {two, three}), true);
  promises.accepted(one, proposal(6, 3, {one, three}), true);
  CHECK(bound_by(promises, three) == Numbers{5, 6});
  CHECK_FALSE(promises.empty());
}

TEST_CASE(
    "a promise to a process prevents proposals of the next process with the same rank, but not those of "
    "the process itself") {
  Promises promises;
  promises.accepted(one, proposal(4, 3, {one, two}), true);
  CHECK(bound_by(promises, one) == Numbers{});
  CHECK(bound_by(promises, {1, 12}) == Numbers{4});
}

TEST_CASE("are_kept() is true if the proposal outvotes every promise to another process") {
  Promises promises;
  promises.accepted(one, proposal(4, 3, {one, two}), true);
  promises.accepted(two, proposal(5, 3, {two, three}), true);
  CHECK(promises.are_kept(three, [](const Proposal&) { return true; }));
  CHECK_FALSE(promises.are_kept(three, [](const Proposal& promised) { return promised.number == 4; }));
}

TEST_CASE(
    "a promise binds a newcomer when other ranks continue from a generation that the newcomer accepted") {
  Promises promises;
  promises.accepted(one, proposal(4, 3, {one, two, three}), false);
  promises.accepted(two, proposal(5, 3, {two, three}), false);
  promises.accepted(three, proposal(9, 3, {three}, promised_elsewhere), false);
  CHECK(promises.empty());
  promises.bind_newcomer(3, promised_here);  // it never accepted this generation
  CHECK(promises.empty());
  promises.bind_newcomer(4, promised_elsewhere);
  CHECK(promises.empty());
  promises.bind_newcomer(4, promised_here);
  CHECK(bound_by(promises, {9, 9}) == Numbers{5});  // the promises later than the generation that began
}

TEST_CASE("a rank is bound by a proposal if it has accepted the generation that this proposal follows") {
  Promises promises;
  promises.accepted(one, proposal(4, 3, {one, two, three}), false);
  promises.accepted(two, proposal(5, 4, {two, three}), false);
  CHECK(bound_by(promises, {9, 9}) == Numbers{5});
}

TEST_CASE("a promise is over when a later generation of its lineage has begun") {
  Promises promises;
  promises.accepted(one, proposal(4, 3, {one}), true);
  promises.accepted(two, proposal(5, 3, {two}), true);
  CHECK_FALSE(promises.forget_before(4, promised_here));
  CHECK_FALSE(promises.forget_before(9, promised_elsewhere));
  CHECK(promises.forget_before(5, promised_here));
  CHECK(bound_by(promises, {9, 9}) == Numbers{5});
  promises.clear();
  CHECK(promises.empty());
  promises.bind_newcomer(3, promised_here);
  CHECK(promises.empty());
}

TEST_CASE("concern() is true for the members of a promised proposal, and for no other process") {
  Promises promises;
  promises.accepted(one, proposal(4, 3, {one, two}), true);
  CHECK(promises.concern(two));
  CHECK_FALSE(promises.concern(three));
  CHECK_FALSE(promises.concern({2, 23}));
}
