// Sums over real connections on loopback.
#include "runtime/ring.h"

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace mlk::rt;
using namespace std::chrono_literals;

namespace {

struct Member {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Ring> ring;

  bool sum(std::vector<float>& data, std::uint32_t index, std::uint32_t count, std::uint64_t step) {
    Ring::Place place{1, step, {}, index};
    for (std::uint32_t rank = 0; rank < count; ++rank) place.ranks.push_back(rank);
    return ring->sum(data, place, [this](std::optional<Event>& event) {
      event = transport->receive(std::chrono::steady_clock::now() + 10s);
      if (!event || event->kind == Event::Kind::down) return false;
      if (event->kind != Event::Kind::message) event.reset();
      return true;
    });
  }
};

// All connected with all.
std::vector<Member> make_members(std::uint32_t count) {
  std::vector<Member> members(count);
  const Key key = parse_key(std::string(64, 'a'));
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    Identity identity{"run", {Role::worker, rank}, rank + 1, "127.0.0.1:0"};
    members[rank].transport =
        std::make_unique<Transport>(identity, key, TransportOptions(), [](std::string_view) {});
    members[rank].ring = std::make_unique<Ring>(*members[rank].transport);
    for (std::uint32_t lower = 0; lower < rank; ++lower) {
      members[rank].transport->dial({Role::worker, lower}, members[lower].transport->address());
    }
  }
  for (Member& member : members) {
    for (std::uint32_t up = 1; up < count; ++up) {
      const auto event = member.transport->receive(std::chrono::steady_clock::now() + 10s);
      REQUIRE(event);
      REQUIRE(event->kind == Event::Kind::up);
    }
  }
  return members;
}

float summand(std::uint32_t rank, std::uint64_t step, std::size_t i) {
  return std::sin(static_cast<float>(rank * 7 + step * 3 + i % 1000));
}

}  // namespace

TEST_CASE("every member gets the same bits, and they are the sum") {
  for (const std::uint32_t count : {1u, 2u, 3u, 5u}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{400'001}}) {
      CAPTURE(count);
      CAPTURE(size);
      auto members = make_members(count);
      std::vector<std::vector<float>> data(count, std::vector<float>(size));
      std::vector<char> whole(count, 0);
      std::vector<std::thread> threads;
      for (std::uint32_t rank = 0; rank < count; ++rank) {
        threads.emplace_back([&, rank] {
          whole[rank] = 1;
          for (std::uint64_t step = 0; step < 3; ++step) {
            for (std::size_t i = 0; i < size; ++i) data[rank][i] = summand(rank, step, i);
            whole[rank] = whole[rank] && members[rank].sum(data[rank], rank, count, step);
          }
        });
      }
      for (auto& thread : threads) thread.join();
      for (std::uint32_t rank = 0; rank < count; ++rank) {
        CHECK(whole[rank]);
        CHECK(data[rank] == data[0]);
      }
      for (std::size_t i = 0; i < size; i += 997) {
        float expected = 0;
        for (std::uint32_t rank = 0; rank < count; ++rank) expected += summand(rank, 2, i);
        CHECK(data[0][i] == doctest::Approx(expected).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("a sum is given up when a member is gone") {
  auto members = make_members(3);
  members[2].ring.reset();
  members[2].transport.reset();
  std::vector<float> one(100'000, 1), other(100'000, 1);
  std::thread thread([&] { CHECK_FALSE(members[1].sum(other, 1, 3, 0)); });
  CHECK_FALSE(members[0].sum(one, 0, 3, 0));
  thread.join();
}
