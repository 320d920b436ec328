// Checks gradients against finite differences, in both implementations.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/reference/reference_ops.h"

namespace mlk::test {

// Represents a loss: the weighted sum of the outputs. The weight of an output is also the gradient by this
// output.
inline double weighted(const std::vector<float>& outputs, const std::vector<float>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    sum += static_cast<double>(outputs[i]) * static_cast<double>(weights[i]);
  return sum;
}

// Checks that gradient[i] is the derivative of the loss by input[i].
inline void check_gradient(std::vector<float> input, const std::vector<float>& gradient,
                           const std::function<double(const std::vector<float>&)>& loss) {
  REQUIRE(input.size() == gradient.size());
  constexpr float h = 1.0f / 256;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const float before = input[i];
    input[i] = before + h;
    const double up = loss(input);
    input[i] = before - h;
    const double down = loss(input);
    input[i] = before;
    REQUIRE((up - down) / (2.0 * h) == doctest::Approx(gradient[i]).epsilon(2e-3).scale(1));
  }
}

template <typename Check>
void on_each_implementation(Check check) {
  for (auto make : {kernels::make_reference_ops, +[] { return kernels::make_cpu_ops(); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    check(*ops);
  }
}

}  // namespace mlk::test
