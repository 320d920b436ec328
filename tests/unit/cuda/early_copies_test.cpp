// Copies to the host that begin before their numbers are read.
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/cuda/device_tensors.h"

TEST_SUITE_BEGIN("cuda/early_copies");

using namespace mlk::test;

TEST_CASE("start_read() copies the present numbers of a tensor, and the copies may be read in any order") {
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
    CHECK(ops->read(all.first(1)).front() == factor);  // no copy was started for this read
  }
  CHECK(on_host(*ops, other).front() == 5 * 531441.0f);
}

TEST_CASE("if start_read() is called again for a tensor, read() gives the newer numbers") {
  const auto ops = device_ops();
  std::optional x = on_device(*ops, {1});
  ops->start_read(*x);
  CHECK(ops->read(*x).front() == 1);
  ops->start_read(*x);
  ops->scale(4, *x, *x);
  ops->start_read(*x);
  CHECK(ops->read(*x).front() == 4);
}

namespace {

void* freed = nullptr;  // the last freed memory
mlk_device* allocates = nullptr;

}  // namespace

TEST_CASE("read() of a new buffer ignores a copy that was started for a freed buffer at the same address") {
  mlk_device_table table = device_table();
  table.free = [](void* memory) {
    device_table().free(device_table().allocate(allocates, 1));  // waits for the device, as free does
    freed = memory;
  };
  table.allocate = [](mlk_device* device, std::size_t bytes) {
    allocates = device;
    return freed ? std::exchange(freed, nullptr) : device_table().allocate(device, bytes);
  };
  {
    const auto ops = mlk::kernels::make_device_ops(table, 0, mlk::kernels::Precision::float32);
    std::optional x = on_device(*ops, {1});
    const float* const address = x->data();
    ops->start_read(*x);
    x.reset();
    x = on_device(*ops, {7});
    REQUIRE(x->data() == address);
    CHECK(ops->read(*x).front() == 7);
  }
  device_table().free(std::exchange(freed, nullptr));
}

TEST_CASE("a device that is closed while its copies are in progress frees everything") {
  const auto ops = device_ops();
  auto x = on_device(*ops, {1});
  ops->start_read(x);
}
