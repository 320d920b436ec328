// Both ends of a lane, mapped twice into this process.
#include "runtime/transport/shared_lane.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/transport/shared_lane");

using namespace mlk::rt;

namespace {

struct Ends {
  std::unique_ptr<SharedLane> writer, reader;
};

Ends make_ends() {
  int fd = -1;
  Ends ends;
  ends.writer = SharedLane::create(fd);
  REQUIRE(ends.writer);
  ends.reader = SharedLane::open(fd);
  ::close(fd);
  REQUIRE(ends.reader);
  return ends;
}

std::vector<std::byte> payload_of(std::size_t size, int seed) {
  std::vector<std::byte> payload(size);
  for (std::size_t i = 0; i < size; ++i)
    payload[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return payload;
}

}  // namespace

TEST_CASE("payloads of all sizes pass in order through a lane much smaller than their sum") {
  const Ends ends = make_ends();
  bool same = true;
  std::size_t size = 1;
  for (int i = 0; i < 400; ++i, size = size * 7 % 500'009 + 1) {
    const auto payload = payload_of(size, i);
    REQUIRE(ends.writer->put(payload));
    same = same && std::ranges::equal(ends.reader->next(size), payload);
    ends.reader->release();
  }
  CHECK(same);
}

TEST_CASE(
    "a full lane accepts nothing until a payload is released, and does not spoil the waiting payloads") {
  const Ends ends = make_ends();
  const auto payload = payload_of(SharedLane::capacity / 4, 1);
  int taken = 0;
  while (ends.writer->put(payload)) ++taken;
  CHECK(taken == 4);
  CHECK(std::ranges::equal(ends.reader->next(payload.size()), payload));
  CHECK_FALSE(ends.writer->put(payload));
  ends.reader->release();
  const auto last = payload_of(payload.size(), 9);
  CHECK(ends.writer->put(last));
  for (int i = 0; i < 3; ++i) {
    CHECK(std::ranges::equal(ends.reader->next(payload.size()), payload));
    ends.reader->release();
  }
  CHECK(std::ranges::equal(ends.reader->next(last.size()), last));
}

TEST_CASE("a writer that waits for room is notified once, when half of the lane is free") {
  const Ends ends = make_ends();
  const auto payload = payload_of(SharedLane::capacity / 8, 1);
  for (int i = 0; i < 8; ++i) {
    CHECK(ends.writer->has_room(payload.size()));
    REQUIRE(ends.writer->put(payload));
  }
  CHECK_FALSE(ends.writer->has_room(payload.size()));
  for (int i = 1; i <= 8; ++i) {
    ends.reader->next(payload.size());
    CHECK(ends.reader->release() == (i == 4));
    CHECK(ends.writer->has_room(payload.size()));
  }
}

TEST_CASE("a payload of half of the lane always fits when all earlier payloads are released") {
  for (std::size_t start = 0; start < SharedLane::capacity; start += 40'961) {
    const Ends ends = make_ends();
    REQUIRE(ends.writer->put(payload_of(start, 0)));
    CHECK(ends.reader->next(start).size() == start);
    ends.reader->release();
    CHECK(ends.writer->has_room(SharedLane::always_fits));
  }
}

TEST_CASE("a payload larger than the lane does not go into it, and the reader expects none there") {
  const Ends ends = make_ends();
  CHECK_FALSE(ends.writer->put(payload_of(SharedLane::capacity + 1, 0)));
  CHECK(ends.reader->next(SharedLane::capacity + 1).empty());
  CHECK(ends.writer->put(payload_of(SharedLane::capacity, 0)));
}

TEST_CASE("memory that its owner could truncate is not accepted as a lane") {
  const int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(unsealed, 4096 + SharedLane::capacity) == 0);
  CHECK_FALSE(SharedLane::open(unsealed));
  ::close(unsealed);
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  CHECK_FALSE(SharedLane::open(pipe_ends[0]));
  for (const int fd : pipe_ends) ::close(fd);
}
