// Where tensors lie, and how the host reads and writes them.
#include "kernels/buffer.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"

TEST_SUITE_BEGIN("kernels/buffer");

using namespace mlk::kernels;

TEST_CASE("a new buffer contains zeros, starts at a cache line, and is empty after a move") {
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    Buffer<float> floats;
    CHECK(floats.empty());
    {
      const auto ops = make();
      floats = ops->allocate<float>(1000);
      CHECK(ops->allocate<std::int32_t>(0).empty());
    }  // the buffer outlives its Ops
    REQUIRE(floats.size() == 1000);
    CHECK(reinterpret_cast<std::uintptr_t>(floats.data()) % 64 == 0);
    for (const float value : std::span<const float>(floats)) CHECK(value == 0);
    const Buffer<float> moved = std::move(floats);
    CHECK(moved.size() == 1000);
    CHECK(floats.empty());  // NOLINT: what is left is defined
    CHECK(std::span<float>(floats).empty());
  }
}

TEST_CASE("on CPUs, read() and place() return the memory of the tensor, not a copy") {
  const auto ops = make_cpu_ops();
  auto buffer = ops->allocate<float>(4);
  const std::span<float> tensor = buffer;
  ops->write(std::vector<float>{1, 2, 3}, tensor.subspan(1));
  CHECK(std::vector<float>(tensor.begin(), tensor.end()) == std::vector<float>{0, 1, 2, 3});
  CHECK(ops->read(tensor).data() == tensor.data());
  CHECK(ops->read(tensor).size() == 4);
  const std::span<float> place = ops->place(tensor);
  REQUIRE(place.data() == tensor.data());
  place[0] = 9;
  ops->write(place, tensor);
  CHECK(ops->read(tensor)[0] == 9);
  ops->write({}, {});
}
