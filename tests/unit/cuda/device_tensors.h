// Tensors on a device, for tests: on the emulated device, or on a GPU if MLK_DEVICE_PLUGIN names the plugin.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device/device_ops.h"
#include "tests/unit/kernels/numbers.h"

#ifndef MLK_DEVICE_PLUGIN
#include "tests/cuda/emulator/grid.h"
#endif

namespace mlk::test {

struct Shape {
  int rows, columns;
};

inline const mlk_device_table& device_table() {
#ifdef MLK_DEVICE_PLUGIN
  return kernels::load_plugin(MLK_DEVICE_PLUGIN);
#else
  return *mlk_device_v4();
#endif
}
inline std::unique_ptr<kernels::Ops> device_ops(kernels::Precision precision = kernels::Precision::float32) {
  return kernels::make_device_ops(device_table(), 0, precision);
}

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

// Calls the test with the threads of each block in three orders; a GPU uses its own order.
template <typename Test>
void in_each_order(Test test) {
#ifdef MLK_DEVICE_PLUGIN
  test();
#else
  using emulator::Order;
#ifdef __SANITIZE_THREAD__  // finds a race in any order, and takes much longer
  constexpr std::array orders{Order::seeded};
#else
  constexpr std::array orders{Order::ascending, Order::descending, Order::seeded};
#endif
  for (const Order order : orders) {
    CAPTURE(static_cast<int>(order));
    emulator::use_order(order, 7);
    test();
  }
  emulator::use_order(Order::ascending);
#endif
}

}  // namespace mlk::test
