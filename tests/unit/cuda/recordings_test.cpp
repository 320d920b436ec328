// Work that a device replays from a recording.
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/cuda/device_tensors.h"

TEST_SUITE_BEGIN("cuda/recordings");

using namespace mlk::test;

TEST_CASE("repeat() calls the work of a key twice, and then replays a recording on the current numbers") {
  const auto ops = device_ops();
  auto x = on_device(*ops, {1, 2, 3}), y = ops->allocate<float>(3);
  int done = 0;
  for (int time = 1; time <= 5; ++time) {
    ops->write(std::vector<float>{static_cast<float>(time), 2, 3}, x);
    ops->repeat(7, [&] {
      ++done;
      ops->scale(2, x, y);
      ops->add_scaled(y, 1, x, y);
    });
    CHECK(on_host(*ops, y) == std::vector<float>{3 * static_cast<float>(time), 6, 9});
  }
  CHECK(done == 2);
}

TEST_CASE("repeat() records the work of a key again if memory was allocated since the recording") {
  const auto ops = device_ops();
  auto x = on_device(*ops, {1, 2, 3});
  auto y = ops->allocate<float>(3);
  int done = 0;
  const auto work = [&] {
    ++done;
    ops->scale(2, x, y);
  };
  for (int time = 0; time < 3; ++time) ops->repeat(7, work);
  CHECK(done == 2);
  y = ops->allocate<float>(3);
  for (int time = 0; time < 3; ++time) ops->repeat(7, work);
  CHECK(done == 4);
  CHECK(on_host(*ops, y) == std::vector<float>{2, 4, 6});
}

TEST_CASE("repeat() records the work of sixteen keys, and runs the work of every further key at each call") {
  const auto ops = device_ops();
  auto x = on_device(*ops, {1});
  int done = 0;
  for (int time = 0; time < 3; ++time) {
    for (std::uint64_t key = 0; key < 20; ++key) {
      ops->repeat(key, [&] {
        ++done;
        ops->scale(1, x, x);
      });
    }
  }
  CHECK(done == 2 * 16 + 3 * 4);
}

TEST_CASE("repeat() rethrows an exception of the work, and the device stays usable") {
  const auto ops = device_ops();
  auto x = on_device(*ops, {1});
  const auto fails = [] { throw std::runtime_error("no"); };
  for (int time = 0; time < 3; ++time) CHECK_THROWS_AS(ops->repeat(7, fails), std::runtime_error);
  ops->scale(5, x, x);
  CHECK(on_host(*ops, x) == std::vector<float>{5});
}
