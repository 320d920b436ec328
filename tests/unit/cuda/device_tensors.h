// Tensors on the emulated device, for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device/device_ops.h"
#include "tests/cuda/emulator/grid.h"
#include "tests/unit/kernels/numbers.h"

namespace mlk::test {

struct Shape {
  int rows, columns;
};

inline std::unique_ptr<kernels::Ops> emulated_ops() { return kernels::make_device_ops(*mlk_device_v1(), 0); }

inline kernels::Buffer<float> on_device(kernels::Ops& ops, const std::vector<float>& values) {
  auto buffer = ops.allocate<float>(values.size());
  ops.write(values, buffer);
  return buffer;
}
inline std::vector<float> on_host(kernels::Ops& ops, std::span<const float> tensor) {
  const auto values = ops.read(tensor);
  return {values.begin(), values.end()};
}
inline kernels::Buffer<std::int32_t> tokens_on_device(kernels::Ops& ops,
                                                      const std::vector<std::int32_t>& tokens) {
  auto buffer = ops.allocate<std::int32_t>(tokens.size());
  ops.write_tokens(tokens, buffer);
  return buffer;
}

// Calls the test with the threads of each block in three orders.
template <typename Test>
void in_each_order(Test test) {
  using emulator::Order;
  for (const Order order : {Order::ascending, Order::descending, Order::seeded}) {
    CAPTURE(static_cast<int>(order));
    emulator::use_order(order, 7);
    test();
  }
  emulator::use_order(Order::ascending);
}

}  // namespace mlk::test
