// Layers that multiply by a weight, computed on a device and by the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/cuda/device_tensors.h"

namespace mlk::test {

struct LayerSize {
  int rows, inputs, outputs;
};

// The largest difference of all results, divided by the allowed difference of products with so many terms.
// rounds: the device multiplies bfloat16. keeps: the layer has LinearLayer::kept and a rounded copy of its
// weight.
inline double error_of_layers(kernels::Ops& ops, bool rounds, bool keeps, const LayerSize& size,
                              kernels::Transpose stored = kernels::Transpose::no) {
  using kernels::LinearGradients, kernels::LinearLayer;
  const auto [rows, inputs, outputs] = size;
  const auto reference = kernels::make_reference_ops();
  Numbers numbers;
  const auto narrow = static_cast<std::size_t>(inputs), wide = static_cast<std::size_t>(outputs);
  const std::size_t in = area(rows, inputs), out = area(rows, outputs), all = area(inputs, outputs);
  const auto x = numbers(in), weight = numbers(all), bias = numbers(wide), residual = numbers(out),
             delta = numbers(out);
  const auto of_x = on_device(ops, x), of_weight = on_device(ops, weight), of_bias = on_device(ops, bias),
             of_residual = on_device(ops, residual), of_delta = on_device(ops, delta);
  const auto unknown = [&ops](std::size_t count) {
    return on_device(ops, std::vector<float>(count, not_a_number));
  };
  auto kept = ops.allocate<kernels::BFloat16>(ops.kept_size(rows, inputs)),
       of_rounded = ops.allocate<kernels::BFloat16>(all);
  ops.round(of_weight, of_rounded.data());
  LinearLayer of_layer{.rows = rows,
                       .inputs = inputs,
                       .outputs = outputs,
                       .x = of_x.data(),
                       .weight = of_weight.data(),
                       .bias = of_bias.data(),
                       .stored = stored};
  if (keeps) of_layer.rounded = of_rounded.data(), of_layer.kept = kept.data();
  const auto factor = [rounds](std::vector<float> values) {
    if (rounds)
      for (float& value : values) value = kernels::to_bfloat16(value).value();
    return values;
  };
  const auto left = factor(x), right = factor(weight), rounded_delta = factor(delta);
  LinearLayer layer = of_layer;
  layer.x = left.data(), layer.weight = right.data(), layer.bias = bias.data();
  double worst = 0;
  const auto compare = [&](std::span<const float> found, const std::vector<float>& expected, int terms) {
    const double bound = (1e-6 * std::sqrt(terms + 1.0) + 3e-6) * (rounds ? 2 : 1);
    worst = std::max(worst, furthest_apart(on_host(ops, found), expected) / bound);
  };

  auto found = unknown(out), of_sums = unknown(out);
  std::vector<float> expected(out), sums(out);
  for (const bool adds : {false, true}) {
    ops.linear(of_layer, adds ? of_residual.data() : nullptr, found.data());
    reference->linear(layer, adds ? residual.data() : nullptr, expected.data());
    compare(found, expected, inputs);
  }
  ops.linear_gelu(of_layer, of_sums.data(), found.data());
  reference->linear_gelu(layer, sums.data(), expected.data());
  compare(of_sums, sums, inputs);
  compare(found, expected, inputs);

  // x also serves as `sums`, which may be any numbers.
  for (const bool through_gelu : {false, true}) {
    auto of_by_weight = unknown(all), of_by_bias = unknown(wide), of_by_x = unknown(in),
         of_by_sums = unknown(narrow);
    std::vector<float> by_weight(all), by_bias(wide), by_x(in), by_sums(narrow);
    LinearGradients to{of_by_weight.data(), of_by_bias.data(), of_by_x.data()};
    LinearGradients expect{by_weight.data(), nullptr, by_x.data()};
    if (through_gelu) {
      to.sums = of_x.data(), to.sums_bias = of_by_sums.data();
      expect.sums = x.data(), expect.sums_bias = by_sums.data();
    }
    ops.linear_backward(of_layer, of_delta.data(), to);
    reference->linear_backward(layer, rounded_delta.data(), expect);
    reference->bias_backward(rows, outputs, delta.data(), by_bias.data());
    compare(of_by_weight, by_weight, rows);
    compare(of_by_bias, by_bias, rows);
    compare(of_by_x, by_x, outputs);
    if (through_gelu) compare(of_by_sums, by_sums, rows * outputs);
    ops.write(std::vector<float>(wide, 7), of_by_bias);
    to.bias = nullptr, to.factor = expect.factor = 0.5f, to.adds = expect.adds = true;
    ops.linear_backward(of_layer, of_delta.data(), to);
    reference->linear_backward(layer, rounded_delta.data(), expect);
    compare(of_by_bias, std::vector<float>(wide, 7), 0);
    compare(of_by_weight, by_weight, rows);
    compare(of_by_x, by_x, outputs);
  }
  of_layer.bias = layer.bias = nullptr;
  ops.linear(of_layer, nullptr, found.data());
  reference->linear(layer, nullptr, expected.data());
  compare(found, expected, inputs);
  return worst;
}

}  // namespace mlk::test
