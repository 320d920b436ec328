// Tests the operations that multiply matrices with Precision::bfloat16 on the device. The reference gets
// inputs that are already rounded.
#include "kernels/bfloat16.h"

#include <cmath>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "tests/unit/cuda/device_tensors.h"

TEST_SUITE_BEGIN("cuda/bfloat16");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::device_ops;
using mlk::test::furthest_apart;
using mlk::test::in_each_order;
using mlk::test::not_a_number;
using mlk::test::Numbers;
using mlk::test::on_device;
using mlk::test::on_host;

namespace {

std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = to_bfloat16(value).value();
  return values;
}

// The norm of the difference, divided by the norm of `expected`.
double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  double difference = 0, squares = 1e-30;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    squares += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / squares);
}

}  // namespace

TEST_CASE(
    "products with bfloat16 on the device are the products of rounded inputs, also if sizes do not fill "
    "whole tiles") {
  struct Size {
    int m, n, k;
  };
  in_each_order([] {
    const auto ops = device_ops(Precision::bfloat16), reference = make_reference_ops();
    Numbers numbers;
    for (const Size size : {Size{1, 1, 1}, {130, 3, 17}, {7, 70, 100}, {3, 129, 64}, {0, 3, 2}, {3, 2, 0}}) {
      for (const Transpose ta : {Transpose::no, Transpose::yes}) {
        for (const Transpose tb : {Transpose::no, Transpose::yes}) {
          const float beta = ta == tb ? 0.0f : 0.5f;
          CAPTURE(size.m);
          CAPTURE(size.k);
          const auto a = numbers(area(size.m, size.k)), b = numbers(area(size.k, size.n));
          auto c = numbers(area(size.m, size.n));
          // With beta 0 the old content of c does not matter.
          const auto begin = beta == 0 ? std::vector<float>(c.size(), not_a_number) : c;
          const auto of_a = on_device(*ops, a), of_b = on_device(*ops, b);
          auto of_c = on_device(*ops, begin);
          ops->gemm(ta, tb, size.m, size.n, size.k, 1.5f, of_a.data(), of_b.data(), beta, of_c.data());
          reference->gemm(ta, tb, size.m, size.n, size.k, 1.5f, rounded(a).data(), rounded(b).data(), beta,
                          c.data());
          CHECK(furthest_apart(on_host(*ops, of_c), c) <= 4e-7 * std::sqrt(size.k + 1.0) + 1e-6);
        }
      }
    }
  });
}

TEST_CASE("on the device, products with bfloat16 and a long inner dimension agree with the reference") {
  in_each_order([] {
    const auto ops = device_ops(Precision::bfloat16), reference = make_reference_ops();
    Numbers numbers;
    constexpr int m = 3, n = 5, k = 530;
    const auto a = numbers(area(m, k)), b = numbers(area(k, n));
    auto c = numbers(area(m, n));
    const auto of_a = on_device(*ops, a), of_b = on_device(*ops, b);
    auto of_c = on_device(*ops, c);
    ops->gemm(Transpose::yes, Transpose::no, m, n, k, 0.5f, of_a.data(), of_b.data(), 0.5f, of_c.data());
    reference->gemm(Transpose::yes, Transpose::no, m, n, k, 0.5f, rounded(a).data(), rounded(b).data(), 0.5f,
                    c.data());
    CHECK(furthest_apart(on_host(*ops, of_c), c) <= 2e-5);
  });
}

TEST_CASE("products with bfloat16 accept matrices at any offset in a buffer") {
  const auto ops = device_ops(Precision::bfloat16), reference = make_reference_ops();
  constexpr int m = 5, n = 3, k = 16;
  for (const std::size_t offset : {0u, 1u, 2u, 4u}) {
    Numbers numbers;
    const auto a = numbers(area(m, k) + offset), b = numbers(area(k, n));
    std::vector<float> c(area(m, n));
    const auto of_a = on_device(*ops, a), of_b = on_device(*ops, b);
    auto of_c = on_device(*ops, c);
    ops->gemm(Transpose::no, Transpose::no, m, n, k, 1, of_a.data() + offset, of_b.data(), 0, of_c.data());
    reference->gemm(Transpose::no, Transpose::no, m, n, k, 1, rounded(a).data() + offset, rounded(b).data(),
                    0, c.data());
    CHECK(furthest_apart(on_host(*ops, of_c), c) <= 3e-6);
  }
}

TEST_CASE("a NaN in the left factor of a bfloat16 product makes exactly one row of the product NaN") {
  const auto ops = device_ops(Precision::bfloat16);
  auto a = Numbers()(3 * 20);
  a[25] = not_a_number;
  const auto of_a = on_device(*ops, a), of_b = on_device(*ops, Numbers()(20 * 2));
  auto of_c = on_device(*ops, std::vector<float>(3 * 2));
  ops->gemm(Transpose::no, Transpose::no, 3, 2, 20, 1, of_a.data(), of_b.data(), 0, of_c.data());
  const auto c = on_host(*ops, of_c);
  for (std::size_t i = 0; i < c.size(); ++i) CHECK(std::isnan(c[i]) == (i / 2 == 1));
}

// Weights between 0 and 1 are rounded by at most 1 / 512 of their value before they are multiplied.
TEST_CASE("attention with bfloat16 on the device rounds the inputs if a head has 64 numbers or more") {
  in_each_order([] {
    const auto ops = device_ops(Precision::bfloat16), reference = make_reference_ops();
    Numbers numbers;
    for (const AttentionShape shape : {AttentionShape{2, 3, 2, 64},
                                       {1, 70, 1, 64},
                                       {1, 150, 1, 64},
                                       {1, 140, 1, 128},
                                       {0, 3, 1, 64},
                                       {2, 5, 3, 4}}) {
      CAPTURE(shape.length);
      CAPTURE(shape.head_size);
      const std::size_t size = area(shape.batch * shape.length, shape.heads * shape.head_size);
      auto qkv = numbers(3 * size);
      for (float& value : qkv) value *= 2;
      const auto delta = numbers(size);
      std::vector<float> out(size), gradient(3 * size),
          log_sums(area(shape.batch * shape.heads, shape.length));
      const auto of_qkv = on_device(*ops, qkv), of_delta = on_device(*ops, delta);
      auto of_out = on_device(*ops, std::vector<float>(size, not_a_number)),
           of_gradient = on_device(*ops, std::vector<float>(3 * size, not_a_number)),
           of_log_sums = on_device(*ops, std::vector<float>(log_sums.size(), not_a_number));
      ops->attention(shape, of_qkv.data(), of_out.data(), of_log_sums.data());
      ops->attention_backward(shape, of_qkv.data(), of_out.data(), of_log_sums.data(), of_delta.data(),
                              of_gradient.data());
      const bool rounds = shape.head_size >= 64;
      const auto of_reference = rounds ? rounded(qkv) : qkv;
      reference->attention(shape, of_reference.data(), out.data(), log_sums.data());
      reference->attention_backward(shape, of_reference.data(), out.data(), log_sums.data(),
                                    rounds ? rounded(delta).data() : delta.data(), gradient.data());
      CHECK(furthest_apart(on_host(*ops, of_log_sums), log_sums) <= 2e-5);
      CHECK(relative_error(on_host(*ops, of_out), out) <= (rounds ? 1 / 512.0 : 1e-6));
      CHECK(furthest_apart(on_host(*ops, of_out), out) <= (rounds ? 2 / 512.0 : 2e-6));
      CHECK(relative_error(on_host(*ops, of_gradient), gradient) <= (rounds ? 1 / 256.0 : 1e-6));
      CHECK(furthest_apart(on_host(*ops, of_gradient), gradient) <= (rounds ? 4 / 256.0 : 1e-5));
    }
  });
}
