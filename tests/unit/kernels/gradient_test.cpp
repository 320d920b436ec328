// Tests every backward operation against finite differences of its forward operation, in both
// implementations.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/ops.h"
#include "tests/unit/kernels/gradients.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("kernels/gradient");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::check_gradient;
using mlk::test::Numbers;
using mlk::test::on_each_implementation;
using mlk::test::weighted;

using Floats = std::vector<float>;

TEST_CASE("the gradients of a product agree with finite differences for every transposition") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const int m = 5, n = 7, k = 6;
    const Floats a = numbers(area(m, k)), b = numbers(area(k, n)), delta = numbers(area(m, n));
    for (const Transpose ta : {Transpose::no, Transpose::yes}) {
      for (const Transpose tb : {Transpose::no, Transpose::yes}) {
        const auto product = [&](const Floats& left, const Floats& right) {
          Floats c(area(m, n));
          ops.gemm(ta, tb, m, n, k, 1, left.data(), right.data(), 0, c.data());
          return weighted(c, delta);
        };
        const bool a_is_transposed = ta == Transpose::yes, b_is_transposed = tb == Transpose::yes;
        const Transpose not_ta = a_is_transposed ? Transpose::no : Transpose::yes;
        const Transpose not_tb = b_is_transposed ? Transpose::no : Transpose::yes;
        Floats by_a(a.size()), by_b(b.size());
        if (a_is_transposed) {  // op(b) delta^T
          ops.gemm(tb, Transpose::yes, k, m, n, 1, b.data(), delta.data(), 0, by_a.data());
        } else {  // delta op(b)^T
          ops.gemm(Transpose::no, not_tb, m, k, n, 1, delta.data(), b.data(), 0, by_a.data());
        }
        if (b_is_transposed) {  // delta^T op(a)
          ops.gemm(Transpose::yes, ta, n, k, m, 1, delta.data(), a.data(), 0, by_b.data());
        } else {  // op(a)^T delta
          ops.gemm(not_ta, Transpose::no, k, n, m, 1, a.data(), delta.data(), 0, by_b.data());
        }
        check_gradient(a, by_a, [&](const Floats& left) { return product(left, b); });
        check_gradient(b, by_b, [&](const Floats& right) { return product(a, right); });
      }
    }
  });
}

TEST_CASE("the gradient of a bias agrees with finite differences") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const int rows = 9, columns = 37;
    const Floats x = numbers(area(rows, columns)), delta = numbers(area(rows, columns));
    Floats gradient(columns);
    ops.bias_backward(rows, columns, delta.data(), gradient.data());
    check_gradient(numbers(columns), gradient, [&](const Floats& bias) {
      Floats output = x;
      ops.add_bias(rows, columns, bias.data(), output.data());
      return weighted(output, delta);
    });
  });
}

TEST_CASE("the gradients of add_bias_relu() agree with finite differences") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const int rows = 9, columns = 37;
    Floats x = numbers(area(rows, columns));
    const Floats bias = numbers(columns), weights = numbers(area(rows, columns));
    for (std::size_t i = 0; i < x.size(); ++i) {
      // At the kink there is no gradient to compare with.
      if (std::abs(x[i] + bias[i % columns]) < 0.01f) x[i] += 0.05f;
    }
    const auto loss = [&](const Floats& input, const Floats& b) {
      Floats output = input;
      ops.add_bias_relu(rows, columns, b.data(), output.data());
      return weighted(output, weights);
    };
    Floats output = x, delta = weights, by_bias(columns);
    ops.add_bias_relu(rows, columns, bias.data(), output.data());
    ops.bias_relu_backward(rows, columns, output.data(), delta.data(), by_bias.data());
    check_gradient(x, delta, [&](const Floats& input) { return loss(input, bias); });
    check_gradient(bias, by_bias, [&](const Floats& b) { return loss(x, b); });
  });
}
