// Which incarnation of a peer is the current one, and what proves that an incarnation is dead.
#include "runtime/transport/peer_table.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/transport/peer_table");

namespace mlk::rt {
namespace {
namespace peer_tables {

using namespace std::chrono_literals;

constexpr PeerId zero{Role::worker, 0}, one{Role::worker, 1};
const SteadyTime start{};

TEST_CASE("an incarnation is fenced as soon as another incarnation of its rank is connected") {
  PeerTable peers;
  CHECK_FALSE(peers.is_fenced(zero, 1));
  CHECK_FALSE(peers.connected(zero, 1));
  CHECK_FALSE(peers.connected(zero, 1));  // the same incarnation connects again after a cut
  CHECK_FALSE(peers.is_fenced(zero, 1));
  CHECK_FALSE(peers.connected(zero, 2));
  CHECK(peers.is_fenced(zero, 1));
  CHECK_FALSE(peers.is_fenced(zero, 2));
  CHECK_FALSE(peers.is_fenced(one, 1));
}

TEST_CASE(
    "the death of a lost incarnation is reported once, when its successor connects or when nobody listens") {
  PeerTable peers;
  peers.connected(zero, 1);
  CHECK_FALSE(peers.nobody_listens(zero));  // the peer was not lost
  CHECK_FALSE(peers.nobody_listens(one));   // the peer was never there
  peers.lost_without_proof(zero, {});
  const auto replaced = peers.connected(zero, 2);
  REQUIRE(replaced);
  CHECK(replaced->peer == zero);
  CHECK(replaced->number == 1);
  CHECK_FALSE(peers.nobody_listens(zero));
  peers.lost_without_proof(zero, {});
  const auto gone = peers.nobody_listens(zero);
  REQUIRE(gone);
  CHECK(gone->number == 2);
  CHECK_FALSE(peers.nobody_listens(zero));
  CHECK_FALSE(peers.connected(zero, 3));  // the death of incarnation 2 was reported already
}

TEST_CASE("a lost incarnation that comes back in time is not reported as dead") {
  PeerTable peers;
  peers.connected(zero, 1);
  peers.lost_without_proof(zero, {});
  CHECK_FALSE(peers.connected(zero, 1));
  CHECK_FALSE(peers.nobody_listens(zero));
}

TEST_CASE("a lost peer that has not returned by its time limit is reported once, as dead") {
  PeerTable peers;
  peers.connected(zero, 1);
  peers.connected(one, 5);
  peers.lost_without_proof(zero, start + 7s);
  peers.lost_without_proof(one, start + 7s);
  CHECK(peers.overdue(start + 6s).empty());
  peers.connected(one, 5);
  const auto dead = peers.overdue(start + 7s);
  REQUIRE(dead.size() == 1);
  CHECK(dead[0].peer == zero);
  CHECK(dead[0].number == 1);
  CHECK(peers.overdue(start + 8s).empty());
}

TEST_CASE("the table keeps at most 256 fenced incarnations of a peer") {
  PeerTable peers;
  for (std::uint64_t incarnation = 1; incarnation <= 400; ++incarnation) peers.connected(zero, incarnation);
  int fenced = 0;
  for (std::uint64_t incarnation = 1; incarnation <= 400; ++incarnation)
    fenced += peers.is_fenced(zero, incarnation);
  CHECK(fenced == 256);
  CHECK(peers.is_fenced(zero, 399));
}

}  // namespace peer_tables
}  // namespace
}  // namespace mlk::rt
