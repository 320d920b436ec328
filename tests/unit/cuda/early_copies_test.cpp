// Copies to the host that begin before their numbers are asked for.
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/cuda/device_tensors.h"

using namespace mlk::test;

TEST_CASE("a read that was started gives the tensor after the operations before it, in any order of reads") {
  const auto ops = device_ops();
  auto x = on_device(*ops, {1, 2, 3, 4}), other = on_device(*ops, {5});
  const std::span<float> all = x;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 4; ++i) {
      ops->scale(2, all.subspan(i, 1), all.subspan(i, 1));
      ops->start_read(all.subspan(i, 1));
      ops->scale(3, other, other);
    }
    const float factor = static_cast<float>(2 << round);
    for (const std::size_t i : {2u, 3u, 0u, 1u})
      CHECK(ops->read(all.subspan(i, 1)).front() == factor * static_cast<float>(i + 1));
    ops->scale(1, all.first(1), all.first(1));
    CHECK(ops->read(all.first(1)).front() == factor);  // nothing was started for this one
  }
  CHECK(on_host(*ops, other).front() == 5 * 531441.0f);
}

TEST_CASE(
    "a read that was started again gives the newer numbers, and those of a freed buffer are forgotten") {
  const auto ops = device_ops();
  std::optional x = on_device(*ops, {1});
  ops->start_read(*x);
  CHECK(ops->read(*x).front() == 1);
  ops->start_read(*x);
  ops->scale(4, *x, *x);
  ops->start_read(*x);
  CHECK(ops->read(*x).front() == 4);
  ops->start_read(*x);
  const float* const address = x->data();
  bool again = false;
  for (int time = 0; time < 50 && !again; ++time) {
    x.reset();
    x = on_device(*ops, {7});
    again = x->data() == address;
    CHECK(ops->read(*x).front() == 7);
  }
}

TEST_CASE("a device that is closed before its copies are waited for frees everything") {
  const auto ops = device_ops();
  auto x = on_device(*ops, {1});
  ops->start_read(x);
}
