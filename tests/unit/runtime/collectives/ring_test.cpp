// Sums over real connections on loopback.
#include "runtime/collectives/ring.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/collectives/ring");

using namespace mlk::rt;
using namespace std::chrono_literals;

namespace {

struct RingMember {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Ring> ring;
  // The limit for a ring that hangs: the thread sanitizer on a crowded machine takes over twenty seconds for
  // the largest sums.
  SteadyTime deadline = std::chrono::steady_clock::now() + 180s;

  bool sum(std::vector<float>& data, std::uint32_t index, std::uint32_t count, std::uint64_t step,
           std::uint64_t generation = 1) {
    const Bucket all{0, data.size()};
    return ring->sum(
        data, {&all, 1}, [] { return std::size_t{1}; }, group_of(index, count, step, generation), pump());
  }

  static Ring::Group group_of(std::uint32_t index, std::uint32_t count, std::uint64_t step,
                              std::uint64_t generation = 1) {
    Ring::Group group{generation, step, {}, index};
    for (std::uint32_t rank = 0; rank < count; ++rank) group.ranks.push_back(rank);
    return group;
  }

  Ring::Pump pump() {
    return [this](std::optional<Event>& event, Milliseconds time) {
      event = transport->receive(std::chrono::steady_clock::now() + time);
      if (event && event->kind == Event::Kind::down) return false;
      if (!event) return std::chrono::steady_clock::now() < deadline;
      if (event->kind != Event::Kind::message) event.reset();
      return true;
    };
  }
};

// Members that are all connected with each other.
std::vector<RingMember> make_members(std::uint32_t count, std::size_t floats = 1'000'000) {
  std::vector<RingMember> members(count);
  const Key key = parse_key(std::string(64, 'a'));
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    Identity identity{"run", {Role::worker, rank}, rank + 1, "127.0.0.1:0"};
    members[rank].transport =
        std::make_unique<Transport>(identity, key, TransportOptions(), [](std::string_view) {});
    members[rank].ring = std::make_unique<Ring>(*members[rank].transport, floats);
    for (std::uint32_t lower = 0; lower < rank; ++lower) {
      members[rank].transport->dial({Role::worker, lower}, members[lower].transport->address());
    }
  }
  for (RingMember& member : members) {
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

TEST_CASE("sum() gives all members the same bits and the right sum") {
  for (const std::uint32_t count : {1u, 2u, 3u, 5u}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{1'400'001}}) {
      CAPTURE(count);
      CAPTURE(size);
      auto members = make_members(count, size);
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

TEST_CASE("sum() adds up the first buckets of a vector while later buckets are still computed") {
  const std::vector<Bucket> large = {{900'000, 700'000}, {899'990, 10}, {0, 899'990}},
                            small = {{60, 40}, {0, 60}};
  for (const auto& [count, buckets] :
       {std::pair{1u, large}, {2u, large}, {4u, large}, {2u, small}, {3u, small}}) {
    CAPTURE(count);
    const std::size_t size = buckets.front().offset + buckets.front().size;
    auto members = make_members(count, size);
    std::vector<std::vector<float>> data(count, std::vector<float>(size));
    std::vector<char> whole(count, 0);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        std::atomic<std::size_t> ready{0};
        for (std::uint64_t step = 0; step < 3; ++step) {
          ready = 0;
          std::thread computation([&] {
            for (const Bucket& bucket : buckets) {
              std::this_thread::sleep_for(std::chrono::milliseconds((rank * 3 + step) % 5 * 4));
              for (std::size_t i = bucket.offset; i < bucket.offset + bucket.size; ++i)
                data[rank][i] = summand(rank, step, i);
              ++ready;
              members[rank].transport->nudge();
            }
          });
          whole[rank] = members[rank].ring->sum(
              data[rank], buckets, [&] { return ready.load(); }, RingMember::group_of(rank, count, step),
              members[rank].pump());
          computation.join();
          if (!whole[rank]) return;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      CHECK(whole[rank]);
      CHECK(data[rank] == data[0]);
    }
    for (std::size_t i = 0; i < size; i += size / 1600 + 1) {
      float expected = 0;
      for (std::uint32_t rank = 0; rank < count; ++rank) expected += summand(rank, 2, i);
      CHECK(data[0][i] == doctest::Approx(expected).epsilon(1e-4));
    }
  }
}

TEST_CASE("a frame of an earlier sum is not added to a later sum, and counts as late") {
  auto members = make_members(2);
  Header late;
  late.type = MessageType::reduce;
  late.data_type = DataType::float32;
  late.generation = 1;
  late.clock = 3;
  const std::vector<float> wrong(1000, 9);
  CHECK(members[1].transport->send({Role::worker, 0}, late, std::as_bytes(std::span(wrong))));
  std::vector<float> one(1000, 1), other(1000, 2);
  std::thread thread([&] { CHECK(members[1].sum(other, 1, 2, 4)); });
  CHECK(members[0].sum(one, 0, 2, 4));
  thread.join();
  CHECK(one == std::vector<float>(1000, 3));
  CHECK(other == one);
  CHECK(members[0].transport->late_messages() == 1);
}

TEST_CASE("an early frame with a wrong size is not added to the sum, and is counted in late_messages()") {
  auto members = make_members(2);
  Header early;
  early.type = MessageType::reduce;
  early.data_type = DataType::float32;
  early.generation = 1;
  early.clock = 4;
  for (const std::size_t size : {std::size_t{50'000}, std::size_t{10}}) {
    CAPTURE(size);
    const std::vector<float> wrong(size, 9);
    CHECK(members[1].transport->send({Role::worker, 0}, early, std::as_bytes(std::span(wrong))));
    auto event = members[0].transport->receive(std::chrono::steady_clock::now() + 10s);
    REQUIRE(event);
    members[0].ring->store_early(std::move(*event));
    const std::uint64_t late = members[0].transport->late_messages();
    std::vector<float> one(1000, 1), other(1000, 2);
    std::thread thread([&] { CHECK(members[1].sum(other, 1, 2, early.clock)); });
    CHECK(members[0].sum(one, 0, 2, early.clock));
    thread.join();
    CHECK(one == std::vector<float>(1000, 3));
    CHECK(other == one);
    CHECK(members[0].transport->late_messages() == late + 1);
    ++early.clock;
  }
}

// A run that begins anew counts its generations from 1 again.
TEST_CASE("forget_from() drops the early frames of an ended process") {
  auto members = make_members(2);
  Header early;
  early.type = MessageType::reduce;
  early.data_type = DataType::float32;
  early.generation = 1;
  early.clock = 4;
  const std::vector<float> old(1000, 9);
  CHECK(members[1].transport->send({Role::worker, 0}, early, std::as_bytes(std::span(old))));
  auto event = members[0].transport->receive(std::chrono::steady_clock::now() + 10s);
  REQUIRE(event);
  members[0].ring->store_early(std::move(*event));
  members[0].ring->forget_from(1);
  CHECK(members[0].transport->late_messages() == 1);
  std::vector<float> one(1000, 1), other(1000, 2);
  std::thread thread([&] { CHECK(members[1].sum(other, 1, 2, early.clock)); });
  CHECK(members[0].sum(one, 0, 2, early.clock));
  thread.join();
  CHECK(one == std::vector<float>(1000, 3));
  CHECK(other == one);
}

TEST_CASE("frames of an earlier generation are dropped to make room for early frames of the next one") {
  auto members = make_members(2);
  std::vector<float> one(800'000, 1), other(800'000, 2);
  std::thread thread([&] {
    Header left;
    left.type = MessageType::reduce;
    left.data_type = DataType::float32;
    left.generation = 1;
    const std::vector<float> piece(64 * 1024, 9);
    for (left.key = 0; left.key < 20; ++left.key) {
      CHECK(members[1].transport->send({Role::worker, 0}, left, std::as_bytes(std::span(piece))));
    }
    CHECK(members[1].sum(other, 1, 2, 0, 2));
  });
  for (int i = 0; i < 20 + 2; ++i) {  // the 20 old frames, and the two pieces of the first phase
    auto event = members[0].transport->receive(std::chrono::steady_clock::now() + 10s);
    REQUIRE(event);
    members[0].ring->store_early(std::move(*event));
  }
  CHECK(members[0].sum(one, 0, 2, 0, 2));
  thread.join();
  CHECK(one == std::vector<float>(800'000, 3));
  CHECK(other == one);
  CHECK(members[0].transport->late_messages() == 20);
}

TEST_CASE("a sum is abandoned when a member is gone") {
  auto members = make_members(3);
  members[2].ring.reset();
  members[2].transport.reset();
  std::vector<float> one(100'000, 1), other(100'000, 1);
  std::thread thread([&] { CHECK_FALSE(members[1].sum(other, 1, 3, 0)); });
  CHECK_FALSE(members[0].sum(one, 0, 3, 0));
  thread.join();
}

TEST_CASE("store_early() keeps at most 4 MiB of frames, and counts further and repeated frames as late") {
  auto members = make_members(1, 1000);
  Ring& ring = *members[0].ring;
  const auto comes = [&](std::uint32_t key, std::size_t bytes, std::uint64_t step,
                         std::uint64_t generation = 1) {
    const std::uint64_t before = members[0].transport->late_messages();
    Event event;
    event.peer = {Role::worker, 1};
    event.header.generation = generation;
    event.header.clock = step;
    event.header.key = key;
    event.payload.resize(bytes);
    ring.store_early(std::move(event));
    return members[0].transport->late_messages() - before;
  };
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  for (std::uint32_t key = 0; key < 3; ++key) CHECK(comes(key, mebibyte, 4) == 0);
  CHECK(comes(2, 4, 4) == 1);
  CHECK(comes(3, mebibyte + 4, 4) == 1);
  CHECK(comes(3, mebibyte, 4) == 0);
  CHECK(comes(4, 4, 4) == 1);
  // A sum of a later step forgets the frames of an earlier step, which makes room.
  std::vector<float> data(8, 1);
  const std::uint64_t before = members[0].transport->late_messages();
  CHECK(members[0].sum(data, 0, 1, 5));
  CHECK(members[0].transport->late_messages() == before + 4);
  CHECK(comes(0, 4, 4) == 1);
  CHECK(comes(0, 4 * mebibyte, 5) == 0);
  CHECK(comes(1, 4, 5) == 1);
  // A frame of a later generation also makes room.
  CHECK(comes(0, 4 * mebibyte, 0, 2) == 1);
  CHECK(comes(1, 4, 0, 2) == 1);
  CHECK(comes(0, 4, 9, 1) == 1);
}

TEST_CASE("sum() of a single member waits until all buckets are ready") {
  auto members = make_members(1, 100);
  const std::vector<Bucket> buckets = {{60, 40}, {0, 60}};
  std::vector<float> data(100, 2);
  std::size_t ready = 0;
  CHECK(members[0].ring->sum(
      data, buckets, [&] { return ready; }, RingMember::group_of(0, 1, 0),
      [&](std::optional<Event>& event, Milliseconds) {
        event.reset();
        ++ready;
        return true;
      }));
  CHECK(ready == 2);
  CHECK(data == std::vector<float>(100, 2));
}
