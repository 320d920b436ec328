// Tests the operations of transformers on the emulated device against the reference.
#include <cmath>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "tests/unit/cuda/device_tensors.h"

TEST_SUITE_BEGIN("cuda/transformer");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::device_ops;
using mlk::test::furthest_apart;
using mlk::test::in_each_order;
using mlk::test::Numbers;
using mlk::test::on_device;
using mlk::test::on_host;
using mlk::test::Shape;
using mlk::test::tokens_on_device;

namespace {

double bound(int terms) { return 1e-6 * std::sqrt(terms + 1.0) + 2e-6; }

std::vector<float> zeros(std::size_t size) { return std::vector<float>(size); }

}  // namespace

TEST_CASE("on the device, GELU and its gradient agree with the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const auto [rows, columns] : {Shape{1, 1}, {3, 5}, {5, 130}, {33, 31}, {0, 4}, {130, 36}}) {
      auto x = numbers(area(rows, columns)), delta = numbers(area(rows, columns));
      for (float& value : x) value *= 6;
      const auto bias = numbers(static_cast<std::size_t>(columns));
      auto out = zeros(x.size()), sums = zeros(bias.size());
      auto of_x = on_device(*ops, x), of_bias = on_device(*ops, bias), of_out = on_device(*ops, out),
           of_delta = on_device(*ops, delta), of_sums = on_device(*ops, sums);
      ops->add_bias_gelu(rows, columns, of_bias.data(), of_x.data(), of_out.data());
      reference->add_bias_gelu(rows, columns, bias.data(), x.data(), out.data());
      CHECK(on_host(*ops, of_x) == x);
      CHECK(furthest_apart(on_host(*ops, of_out), out) <= 2e-6);
      ops->bias_gelu_backward(rows, columns, of_x.data(), of_delta.data(), of_sums.data());
      reference->bias_gelu_backward(rows, columns, x.data(), delta.data(), sums.data());
      CHECK(furthest_apart(on_host(*ops, of_delta), delta) <= 3e-6);
      CHECK(furthest_apart(on_host(*ops, of_sums), sums) <= bound(rows));
    }
  });
}

TEST_CASE("on the device, layer normalisation and its gradients agree with the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const auto [rows, columns] :
         {Shape{1, 2}, {3, 5}, {5, 130}, {33, 31}, {0, 4}, {40, 132}, {2, 3100}, {2, 24600}}) {
      CAPTURE(rows);
      CAPTURE(columns);
      const auto x = numbers(area(rows, columns)), delta = numbers(area(rows, columns));
      const auto weight = numbers(static_cast<std::size_t>(columns)), bias = numbers(weight.size());
      auto gradient = numbers(x.size());
      auto out = zeros(x.size()), mean = zeros(static_cast<std::size_t>(rows)), scale = mean,
           by_weight = zeros(weight.size()), by_bias = by_weight;
      const auto of_x = on_device(*ops, x), of_weight = on_device(*ops, weight),
                 of_bias = on_device(*ops, bias), of_delta = on_device(*ops, delta);
      auto of_out = on_device(*ops, out), of_mean = on_device(*ops, mean), of_scale = on_device(*ops, scale),
           of_gradient = on_device(*ops, gradient), of_by_weight = on_device(*ops, by_weight),
           of_by_bias = on_device(*ops, by_bias);
      ops->layer_norm(rows, columns, of_x.data(), of_weight.data(), of_bias.data(), of_out.data(),
                      of_mean.data(), of_scale.data());
      reference->layer_norm(rows, columns, x.data(), weight.data(), bias.data(), out.data(), mean.data(),
                            scale.data());
      CHECK(furthest_apart(on_host(*ops, of_out), out) <= bound(columns));
      ops->layer_norm_backward(rows, columns, of_x.data(), of_weight.data(), of_mean.data(), of_scale.data(),
                               of_delta.data(), of_gradient.data(), of_by_weight.data(), of_by_bias.data());
      reference->layer_norm_backward(rows, columns, x.data(), weight.data(), mean.data(), scale.data(),
                                     delta.data(), gradient.data(), by_weight.data(), by_bias.data());
      double largest = 1;
      for (const float value : scale) largest = std::max(largest, static_cast<double>(value));
      CHECK(furthest_apart(on_host(*ops, of_gradient), gradient) <= largest * bound(columns));
      CHECK(furthest_apart(on_host(*ops, of_by_weight), by_weight) <= largest * bound(rows));
      CHECK(furthest_apart(on_host(*ops, of_by_bias), by_bias) <= bound(rows));
    }
  });
}

TEST_CASE("embeddings and their gradients have the same bits on the device as in the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    struct Size {
      int length, rows, columns, vocabulary;
    };
    for (const auto [length, rows, columns, vocabulary] :
         {Size{4, 12, 70, 5}, {50, 300, 132, 3}, {1, 1, 3, 1}, {3, 0, 4, 2}}) {
      CAPTURE(rows);
      const auto tokens = numbers.labels(rows, vocabulary);
      const auto table = numbers(area(vocabulary, columns)), positions = numbers(area(length, columns)),
                 delta = numbers(area(rows, columns));
      auto out = zeros(area(rows, columns)), by_token = numbers(table.size()),
           by_position = zeros(positions.size());
      const auto of_table = on_device(*ops, table), of_positions = on_device(*ops, positions),
                 of_delta = on_device(*ops, delta);
      const auto of_tokens = tokens_on_device(*ops, tokens);
      auto of_out = on_device(*ops, out), of_by_token = on_device(*ops, by_token),
           of_by_position = on_device(*ops, by_position);
      ops->embed(rows, length, columns, of_tokens.data(), of_table.data(), of_positions.data(),
                 of_out.data());
      reference->embed(rows, length, columns, tokens.data(), table.data(), positions.data(), out.data());
      CHECK(on_host(*ops, of_out) == out);
      ops->embed_backward(rows, length, columns, of_tokens.data(), of_delta.data(), of_by_token.data(),
                          of_by_position.data());
      reference->embed_backward(rows, length, columns, tokens.data(), delta.data(), by_token.data(),
                                by_position.data());
      CHECK(on_host(*ops, of_by_token) == by_token);
      CHECK(on_host(*ops, of_by_position) == by_position);
    }
  });
}

TEST_CASE("on the device, attention and its gradient agree with the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const AttentionShape shape : {AttentionShape{1, 1, 1, 1},
                                       {2, 5, 3, 4},
                                       {1, 70, 1, 33},
                                       {0, 3, 1, 2},
                                       {2, 3, 2, 64},
                                       {1, 70, 1, 64},
                                       {1, 37, 2, 128}}) {
      CAPTURE(shape.length);
      CAPTURE(shape.head_size);
      const std::size_t size = area(shape.batch * shape.length, shape.heads * shape.head_size);
      auto qkv = numbers(3 * size);
      for (float& value : qkv) value *= 3;
      const auto delta = numbers(size);
      auto out = zeros(size), gradient = zeros(3 * size),
           log_sums = zeros(area(shape.batch * shape.heads, shape.length));
      const auto of_qkv = on_device(*ops, qkv), of_delta = on_device(*ops, delta);
      auto of_out = on_device(*ops, out), of_gradient = on_device(*ops, gradient),
           of_log_sums = on_device(*ops, log_sums);
      ops->attention(shape, of_qkv.data(), of_out.data(), of_log_sums.data());
      reference->attention(shape, qkv.data(), out.data(), log_sums.data());
      CHECK(furthest_apart(on_host(*ops, of_out), out) <= 2e-5);
      CHECK(furthest_apart(on_host(*ops, of_log_sums), log_sums) <= 2e-5);
      ops->attention_backward(shape, of_qkv.data(), of_out.data(), of_log_sums.data(), of_delta.data(),
                              of_gradient.data());
      reference->attention_backward(shape, qkv.data(), out.data(), log_sums.data(), delta.data(),
                                    gradient.data());
      CHECK(furthest_apart(on_host(*ops, of_gradient), gradient) <= 1e-4);
    }
  });
}

#ifndef __SANITIZE_THREAD__  // the thread sanitizer takes minutes for so many threads
TEST_CASE("attention accepts more than 65535 heads, the largest number of blocks of a grid along y") {
  const auto ops = device_ops(), reference = make_reference_ops();
  constexpr AttentionShape shape{65536, 1, 1, 64};
  Numbers numbers;
  const auto qkv = numbers(area(shape.batch, 3 * shape.head_size));
  auto out = zeros(area(shape.batch, shape.head_size)), log_sums = zeros(area(shape.batch, 1));
  const auto of_qkv = on_device(*ops, qkv);
  auto of_out = on_device(*ops, out), of_log_sums = on_device(*ops, log_sums);
  ops->attention(shape, of_qkv.data(), of_out.data(), of_log_sums.data());
  reference->attention(shape, qkv.data(), out.data(), log_sums.data());
  CHECK(furthest_apart(on_host(*ops, of_out), out) <= 2e-5);
}
#endif

TEST_CASE("attention accepts tensors that are not aligned") {
  constexpr AttentionShape shape{1, 3, 1, 64};
  constexpr std::size_t size = 3 * 64;
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    const auto ops = device_ops(precision), reference = make_reference_ops();
    Numbers numbers;
    const auto qkv = numbers(3 * size), delta = numbers(size);
    auto out = zeros(size), log_sums = zeros(3), gradient = zeros(3 * size);
    auto buffer = on_device(*ops, zeros(8 * size + 8));  // tensors begin one number past alignment
    const auto of_qkv = std::span<float>(buffer).subspan(1, 3 * size),
               of_out = std::span<float>(buffer).subspan(3 * size + 1, size),
               of_delta = std::span<float>(buffer).subspan(4 * size + 1, size),
               of_gradient = std::span<float>(buffer).subspan(5 * size + 1, 3 * size);
    auto of_log_sums = ops->allocate<float>(3);
    ops->write(qkv, of_qkv);
    ops->write(delta, of_delta);
    ops->attention(shape, of_qkv.data(), of_out.data(), of_log_sums.data());
    ops->attention_backward(shape, of_qkv.data(), of_out.data(), of_log_sums.data(), of_delta.data(),
                            of_gradient.data());
    reference->attention(shape, qkv.data(), out.data(), log_sums.data());
    reference->attention_backward(shape, qkv.data(), out.data(), log_sums.data(), delta.data(),
                                  gradient.data());
    CHECK(furthest_apart(on_host(*ops, of_out), out) <= 2e-5);
    CHECK(furthest_apart(on_host(*ops, of_gradient), gradient) <= 1e-4);
  }
}

TEST_CASE(
    "dropout() and clip() on the device agree with the reference, and clip() turns all numbers into NaN if "
    "one is infinite") {
  const auto ops = device_ops(), reference = make_reference_ops();
  Numbers numbers;
  auto x = numbers(700);
  auto of_x = on_device(*ops, x);
  const DropoutMask mask{.probability = 0.3f, .seed = 5, .stream = 2, .first = 3};
  ops->dropout(mask, of_x, of_x);
  reference->dropout(mask, x, x);
  CHECK(on_host(*ops, of_x) == x);
  for (const float most : {1000.0f, 2.0f}) {
    ops->clip(of_x, most);
    reference->clip(x, most);
    CHECK(furthest_apart(on_host(*ops, of_x), x) <= 1e-7);
  }
  x[3] = HUGE_VALF;
  of_x = on_device(*ops, x);
  ops->clip(of_x, 1);
  for (const float value : on_host(*ops, of_x)) CHECK(std::isnan(value));
}
