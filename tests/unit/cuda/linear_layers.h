// Layers that multiply by a weight, computed on a device and by the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/cuda/device_tensors.h"

namespace mlk::test {

// The largest difference of all results, in units of what products with so many terms may differ by.
// rounds: the device multiplies bfloat16.
inline double error_of_layers(kernels::Ops& ops, bool rounds, const kernels::LinearShape& shape) {
  using kernels::LinearGradients;
  const auto reference = kernels::make_reference_ops();
  Numbers numbers;
  const auto narrow = static_cast<std::size_t>(shape.inputs), wide = static_cast<std::size_t>(shape.outputs);
  const std::size_t in = area(shape.rows, shape.inputs), out = area(shape.rows, shape.outputs),
                    all = area(shape.inputs, shape.outputs);
  const auto x = numbers(in), weight = numbers(all), bias = numbers(wide), residual = numbers(out),
             delta = numbers(out);
  const auto of_x = on_device(ops, x), of_weight = on_device(ops, weight), of_bias = on_device(ops, bias),
             of_residual = on_device(ops, residual), of_delta = on_device(ops, delta);
  const auto factor = [rounds](std::vector<float> values) {
    if (rounds)
      for (float& value : values) value = kernels::to_bfloat16(value).value();
    return values;
  };
  const auto left = factor(x), right = factor(weight), rounded_delta = factor(delta);
  double worst = 0;
  const auto compare = [&](std::span<const float> found, const std::vector<float>& expected, int terms) {
    const double bound = (1e-6 * std::sqrt(terms + 1.0) + 3e-6) * (rounds ? 2 : 1);
    worst = std::max(worst, furthest_apart(on_host(ops, found), expected) / bound);
  };

  auto found = on_device(ops, std::vector<float>(out, not_a_number)), of_sums = on_device(ops, residual);
  std::vector<float> expected(out), sums(out);
  for (const bool with_residual : {false, true}) {
    ops.linear(shape, of_x.data(), of_weight.data(), of_bias.data(),
               with_residual ? of_residual.data() : nullptr, found.data());
    reference->linear(shape, left.data(), right.data(), bias.data(),
                      with_residual ? residual.data() : nullptr, expected.data());
    compare(found, expected, shape.inputs);
  }
  ops.linear_gelu(shape, of_x.data(), of_weight.data(), of_bias.data(), of_sums.data(), found.data());
  reference->linear_gelu(shape, left.data(), right.data(), bias.data(), sums.data(), expected.data());
  compare(of_sums, sums, shape.inputs);
  compare(found, expected, shape.inputs);

  // x takes the place of the sums, which may be any numbers.
  for (const bool through_gelu : {false, true}) {
    auto of_by_weight = on_device(ops, std::vector<float>(all, not_a_number)),
         of_by_bias = on_device(ops, std::vector<float>(wide, not_a_number)),
         of_by_x = on_device(ops, std::vector<float>(in, not_a_number)),
         of_by_sums = on_device(ops, std::vector<float>(narrow, not_a_number));
    std::vector<float> by_weight(all), by_bias(wide), by_x(in), by_sums(narrow);
    LinearGradients to{of_by_weight.data(), of_by_bias.data(), of_by_x.data()};
    LinearGradients expect{by_weight.data(), nullptr, by_x.data()};
    if (through_gelu) {
      to.sums = of_x.data(), to.sums_bias = of_by_sums.data();
      expect.sums = x.data(), expect.sums_bias = by_sums.data();
    }
    ops.linear_backward(shape, of_x.data(), of_weight.data(), of_delta.data(), to);
    reference->linear_backward(shape, left.data(), right.data(), rounded_delta.data(), expect);
    reference->bias_backward(shape.rows, shape.outputs, delta.data(), by_bias.data());
    compare(of_by_weight, by_weight, shape.rows);
    compare(of_by_bias, by_bias, shape.rows);
    compare(of_by_x, by_x, shape.outputs);
    if (through_gelu) compare(of_by_sums, by_sums, shape.rows * shape.outputs);
    to.bias = nullptr;
    ops.linear_backward(shape, of_x.data(), of_weight.data(), of_delta.data(), to);
    compare(of_by_bias, by_bias, shape.rows);
  }
  return worst;
}

}  // namespace mlk::test
