// When the dialler dials peers; the test sets the clock.
#include "runtime/transport/dialer.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/transport/dialer");

using namespace mlk::rt;
using namespace std::chrono_literals;

namespace {

constexpr PeerId peer{Role::server, 0};
const SteadyTime start{};

Dialer with_target() {
  Dialer dialer(50ms, 400ms);
  dialer.add(peer, {"name", 1}, start);
  return dialer;
}

}  // namespace

TEST_CASE("a peer is dialled at once, and again with growing delays up to a bound") {
  Dialer dialer = with_target();
  auto now = start;
  std::vector<long> delays;
  for (int round = 0; round < 7; ++round) {
    REQUIRE(dialer.due(now).size() == 1);
    CHECK(dialer.due(now).empty());  // the round is under way
    dialer.attempts(peer, 0, now);   // the name is not known yet
    delays.push_back(
        std::chrono::duration_cast<std::chrono::milliseconds>(*dialer.next_round() - now).count());
    now = *dialer.next_round();
  }
  CHECK(delays == std::vector<long>{50, 100, 200, 400, 400, 400, 400});
}

TEST_CASE("if every address has refused in a round of attempts, this proves that no process listens") {
  Dialer dialer = with_target();
  dialer.due(start);
  dialer.attempts(peer, 2, start);
  CHECK_FALSE(dialer.attempt_over(peer, Dialer::Outcome::refused, start));
  CHECK(dialer.attempt_over(peer, Dialer::Outcome::refused, start));
  dialer.due(start + 1s);
  dialer.attempts(peer, 2, start);
  CHECK_FALSE(dialer.attempt_over(peer, Dialer::Outcome::failed, start));
  CHECK_FALSE(dialer.attempt_over(peer, Dialer::Outcome::refused, start));
}

TEST_CASE("a connected peer is dialled again only when it is lost, and then after the shortest delay") {
  Dialer dialer = with_target();
  for (int round = 0; round < 5; ++round) {
    dialer.due(start + round * 1s);
    dialer.attempts(peer, 0, start + round * 1s);
  }
  dialer.due(start + 10s);
  dialer.attempts(peer, 1, start + 10s);
  dialer.connected(peer);
  CHECK(dialer.due(start + 100s).empty());
  CHECK_FALSE(dialer.next_round());
  dialer.lost(peer, start + 100s);
  CHECK(*dialer.next_round() == start + 100s + 50ms);
}

TEST_CASE("a peer that was connected during the look-up of its address is not dialled") {
  Dialer dialer = with_target();
  dialer.due(start);
  CHECK(dialer.attempts(peer, 1, start));
  dialer.lost(peer, start);  // the peer was connected, and is silent
  dialer.due(start + 1s);
  dialer.connected(peer);  // the peer is heard again
  CHECK_FALSE(dialer.attempts(peer, 1, start + 1s));
  CHECK(dialer.due(start + 100s).empty());
}

TEST_CASE(
    "next_round() is the time of the peer that is due first, and ignores peers whose round is under way") {
  constexpr PeerId one{Role::worker, 1}, two{Role::worker, 2}, three{Role::worker, 3};
  Dialer dialer(50ms, 400ms);
  CHECK_FALSE(dialer.next_round());
  CHECK(dialer.find(one) == nullptr);
  dialer.add(one, {"a", 1}, start + 5s);
  dialer.add(two, {"b", 2}, start + 3s);
  dialer.add(three, {"c", 3}, start + 4s);
  CHECK(dialer.next_round() == start + 3s);
  CHECK(dialer.due(start + 2s).empty());
  CHECK(dialer.due(start + 4s) == std::vector{two, three});
  CHECK(dialer.next_round() == start + 5s);
  dialer.add(two, {"other", 9}, start + 1s);  // the peer is busy: its round continues
  CHECK(dialer.next_round() == start + 5s);
  CHECK(dialer.find(two)->host == "other");
  CHECK(dialer.find(two)->port == 9);
  dialer.add(one, {"a", 1}, start + 1s);  // an earlier time
  CHECK(dialer.next_round() == start + 1s);
  // Once a peer is connected, the results of its attempts no longer count.
  dialer.attempts(three, 1, start + 4s);
  dialer.connected(three);
  CHECK_FALSE(dialer.attempt_over(three, Dialer::Outcome::refused, start + 4s));
  CHECK(dialer.next_round() == start + 1s);
  // For a peer that is not dialled, none of these calls has an effect.
  constexpr PeerId nobody{Role::server, 9};
  dialer.attempts(nobody, 0, start);
  dialer.connected(nobody);
  dialer.lost(nobody, start);
  CHECK_FALSE(dialer.attempt_over(nobody, Dialer::Outcome::refused, start));
  CHECK(dialer.next_round() == start + 1s);
}

TEST_CASE("refusals of an earlier round do not count in the next round") {
  constexpr PeerId peer{Role::worker, 1};
  Dialer dialer(50ms, 400ms);
  dialer.add(peer, {"a", 1}, start);
  for (const bool refused : {false, true, false}) {
    const SteadyTime now = *dialer.next_round();
    CHECK(dialer.due(now).size() == 1);
    dialer.attempts(peer, 2, now);
    CHECK_FALSE(dialer.attempt_over(peer, Dialer::Outcome::refused, now));
    CHECK_FALSE(dialer.next_round());
    const auto outcome = refused ? Dialer::Outcome::refused : Dialer::Outcome::failed;
    CHECK(dialer.attempt_over(peer, outcome, now) == refused);
    CHECK(dialer.next_round());
  }
}
