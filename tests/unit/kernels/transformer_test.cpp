// Tests the operations of a transformer: the reference against definitions, the other implementations
// against the reference on sizes that are no multiple of a vector, and every backward pass against finite
// differences.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/layer_loops.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/kernels/gradients.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("kernels/transformer");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::check_gradient;
using mlk::test::furthest_apart;
using mlk::test::not_a_number;
using mlk::test::Numbers;
using mlk::test::on_each_implementation;
using mlk::test::weighted;

namespace {

using Floats = std::vector<float>;

Floats times(float factor, Floats values) {
  for (float& value : values) value *= factor;
  return values;
}

struct LayerNorm {
  Floats out, mean, scale, by_x, by_weight, by_bias;
};

// by_x begins at 1, because the operation adds the gradient to by_x.
LayerNorm layer_norm(Ops& ops, int rows, int columns, const Floats& x, const Floats& weight,
                     const Floats& bias, const Floats& delta) {
  LayerNorm got{Floats(x.size()),
                Floats(area(rows, 1)),
                Floats(area(rows, 1)),
                Floats(x.size(), 1),
                Floats(weight.size(), not_a_number),
                Floats(bias.size(), not_a_number)};
  ops.layer_norm(rows, columns, x.data(), weight.data(), bias.data(), got.out.data(), got.mean.data(),
                 got.scale.data());
  ops.layer_norm_backward(rows, columns, x.data(), weight.data(), got.mean.data(), got.scale.data(),
                          delta.data(), got.by_x.data(), got.by_weight.data(), got.by_bias.data());
  return got;
}

struct Attention {
  Floats out, log_sums, by_qkv;
};

Attention attend(Ops& ops, const AttentionShape& shape, const Floats& qkv, const Floats& delta) {
  Attention got{Floats(delta.size(), not_a_number), Floats(area(shape.batch * shape.heads, shape.length)),
                Floats(qkv.size(), not_a_number)};
  ops.attention(shape, qkv.data(), got.out.data(), got.log_sums.data());
  ops.attention_backward(shape, qkv.data(), got.out.data(), got.log_sums.data(), delta.data(),
                         got.by_qkv.data());
  return got;
}

std::size_t vectors_of(const AttentionShape& shape) {
  return area(shape.batch * shape.length, shape.heads * shape.head_size);
}

const AttentionShape attention_shapes[] = {{0, 5, 2, 4},   {2, 0, 2, 4},    {1, 1, 1, 1},
                                           {2, 3, 1, 8},   {3, 7, 3, 5},    {1, 64, 2, 16},
                                           {2, 65, 1, 17}, {1, 130, 2, 64}, {2, 200, 3, 9}};

}  // namespace

TEST_CASE("GELU has the values of GPT-2, near 0 and far from 0") {
  on_each_implementation([](Ops& ops) {
    const Floats bias(8, 0.5f);
    // Without the bias: values of torch.nn.functional.gelu(x, approximate='tanh').
    Floats x = {-100.5f, -3.5f, -1.5f, -0.5f, 0.5f, 2.5f, 99.5f, not_a_number}, out(8);
    ops.add_bias_gelu(1, 8, bias.data(), x.data(), out.data());
    CHECK(x[1] == -3);
    const double expected[] = {0, -0.00363739, -0.15880801, 0, 0.84119199, 2.99636261, 100};
    for (std::size_t i = 0; i < 7; ++i) CHECK(out[i] == doctest::Approx(expected[i]).epsilon(1e-6).scale(1));
    CHECK(std::isnan(out[7]));
    Floats delta(8, 2), by_bias(8);
    ops.bias_gelu_backward(1, 8, x.data(), delta.data(), by_bias.data());
    CHECK(std::abs(delta[0]) < 1e-6f);
    CHECK(delta[6] == 2);
    CHECK(std::isnan(delta[7]));
  });
}

TEST_CASE("the gradient of GELU agrees with finite differences") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const int rows = 5, columns = 19;
    const Floats x = times(4, numbers(area(rows, columns))), bias = numbers(columns),
                 delta = numbers(area(rows, columns));
    const auto loss = [&](Floats input, const Floats& b) {
      Floats out(input.size());
      ops.add_bias_gelu(rows, columns, b.data(), input.data(), out.data());
      return weighted(out, delta);
    };
    Floats with_bias = x, out(x.size()), by_x = delta, by_bias(columns);
    ops.add_bias_gelu(rows, columns, bias.data(), with_bias.data(), out.data());
    ops.bias_gelu_backward(rows, columns, with_bias.data(), by_x.data(), by_bias.data());
    check_gradient(x, by_x, [&](const Floats& input) { return loss(input, bias); });
    check_gradient(bias, by_bias, [&](const Floats& b) { return loss(x, b); });
  });
}

TEST_CASE("the processor's GELU agrees with the reference, for small and for huge numbers") {
  auto reference = make_reference_ops(), ops = make_cpu_ops(3);
  Numbers numbers;
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{0, 3}, {3, 0}, {1, 1}, {3, 17}, {600, 333}}) {
    for (const float size : {1e-6f, 1.0f, 10.0f, 1e12f}) {
      CAPTURE(columns);
      CAPTURE(size);
      const Floats bias = times(size, numbers(area(1, columns)));
      Floats expected_x = times(size, numbers(area(rows, columns))), x = expected_x, expected(x.size()),
             out(x.size());
      reference->add_bias_gelu(rows, columns, bias.data(), expected_x.data(), expected.data());
      ops->add_bias_gelu(rows, columns, bias.data(), x.data(), out.data());
      CHECK(x == expected_x);
      CHECK(furthest_apart(out, expected) <= 1e-6 * size);
      Floats expected_delta = numbers(x.size()), delta = expected_delta, expected_sum(bias.size()),
             sum(bias.size());
      reference->bias_gelu_backward(rows, columns, x.data(), expected_delta.data(), expected_sum.data());
      ops->bias_gelu_backward(rows, columns, x.data(), delta.data(), sum.data());
      CHECK(furthest_apart(delta, expected_delta) <= 1e-6);
      CHECK(furthest_apart(sum, expected_sum) <= 1e-6 * (rows + 1));
    }
  }
}

TEST_CASE("a layer norm scales a row to mean 0 and variance 1, multiplies by the weight and adds the bias") {
  on_each_implementation([](Ops& ops) {
    const Floats x = {1, 3, 5, 7}, weight = {1, 2, 1, 1}, bias = {0, 0, 10, 0};
    const auto got = layer_norm(ops, 1, 4, x, weight, bias, Floats(4, 1));
    const double scale = 1 / std::sqrt(5.0 + 1e-5);
    CHECK(got.mean[0] == 4);
    CHECK(got.scale[0] == doctest::Approx(scale).epsilon(1e-6));
    CHECK(got.out[0] == doctest::Approx(-3 * scale).epsilon(1e-6));
    CHECK(got.out[1] == doctest::Approx(-2 * scale).epsilon(1e-6));
    CHECK(got.out[2] == doctest::Approx(10 + scale).epsilon(1e-6));
  });
}

TEST_CASE("the gradients of a layer norm agree with finite differences") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const int rows = 4, columns = 21;
    const Floats x = numbers(area(rows, columns)), weight = numbers(columns), bias = numbers(columns),
                 delta = numbers(area(rows, columns));
    auto got = layer_norm(ops, rows, columns, x, weight, bias, delta);
    for (float& value : got.by_x) value -= 1;
    const auto loss = [&](const Floats& input, const Floats& w, const Floats& b) {
      return weighted(layer_norm(ops, rows, columns, input, w, b, delta).out, delta);
    };
    check_gradient(x, got.by_x, [&](const Floats& input) { return loss(input, weight, bias); });
    check_gradient(weight, got.by_weight, [&](const Floats& w) { return loss(x, w, bias); });
    check_gradient(bias, got.by_bias, [&](const Floats& b) { return loss(x, weight, b); });
  });
}

TEST_CASE(
    "the processor's layer norm agrees with the reference, and a NaN spoils only the output of its row") {
  auto reference = make_reference_ops(), ops = make_cpu_ops(3);
  Numbers numbers;
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{0, 4}, {1, 1}, {3, 5}, {7, 33}, {400, 515}}) {
    CAPTURE(columns);
    const Floats x = times(3, numbers(area(rows, columns))), weight = numbers(area(1, columns)),
                 bias = numbers(area(1, columns)), delta = numbers(x.size());
    const auto expected = layer_norm(*reference, rows, columns, x, weight, bias, delta),
               got = layer_norm(*ops, rows, columns, x, weight, bias, delta);
    const double bound = columns == 1 ? 1e-4 : 3e-6;  // the scale of a row of equal numbers is 316
    CHECK(furthest_apart(got.out, expected.out) <= bound);
    CHECK(furthest_apart(got.mean, expected.mean) <= 1e-6);
    CHECK(furthest_apart(got.scale, expected.scale) <= bound);
    CHECK(furthest_apart(got.by_x, expected.by_x) <= bound);
    CHECK(furthest_apart(got.by_weight, expected.by_weight) <= 1e-6 * (rows + 1));
    CHECK(furthest_apart(got.by_bias, expected.by_bias) <= 1e-6 * (rows + 1));
  }
  Floats x = numbers(2 * 40);
  x[50] = not_a_number;
  const auto got = layer_norm(*ops, 2, 40, x, Floats(40, 1), Floats(40), Floats(80, 1));
  CHECK(!std::isnan(got.out[0]));
  CHECK(std::isnan(got.out[40]));
  CHECK(std::isnan(got.by_x[40]));
}

TEST_CASE("an embedding is the row of the token plus the row of its place in the sequence") {
  on_each_implementation([](Ops& ops) {
    const Floats tokens_table = {1, 2, 10, 20, 100, 200}, position_table = {0.5f, 0.25f, 1, 2};
    const std::vector<std::int32_t> tokens = {2, 0, 0, 2};  // two sequences of two
    Floats out(8);
    ops.embed(4, 2, 2, tokens.data(), tokens_table.data(), position_table.data(), out.data());
    CHECK(out == Floats{100.5f, 200.25f, 2, 4, 1.5f, 2.25f, 101, 202});
    const Floats delta = {1, 2, 3, 4, 5, 6, 7, 8};
    Floats by_token = {0, 0, 1, 1, 10, 10}, by_position(4, not_a_number);
    ops.embed_backward(4, 2, 2, tokens.data(), delta.data(), by_token.data(), by_position.data());
    CHECK(by_token == Floats{8, 10, 1, 1, 18, 20});
    CHECK(by_position == Floats{6, 8, 10, 12});
    ops.embed(0, 2, 2, nullptr, tokens_table.data(), position_table.data(), nullptr);
  });
}

TEST_CASE(
    "attention gives the first of two positions its own value, and the second the weighted mean of both") {
  on_each_implementation([](Ops& ops) {
    const AttentionShape shape{1, 2, 1, 1};
    const Floats qkv = {0, 1, 3, /**/ 2, 2, 7};
    const auto got = attend(ops, shape, qkv, {1, 1});
    CHECK(got.out[0] == 3);
    CHECK(got.log_sums[0] == 0);
    const double first = std::exp(2.0), second = std::exp(4.0);
    CHECK(got.out[1] == doctest::Approx((3 * first + 7 * second) / (first + second)).epsilon(1e-6));
    CHECK(got.log_sums[1] == doctest::Approx(std::log(first + second)).epsilon(1e-6));
  });
}

TEST_CASE("the gradients of attention agree with finite differences") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    for (const AttentionShape& shape : {AttentionShape{2, 5, 2, 3}, {1, 67, 1, 2}}) {
      const Floats qkv = times(2, numbers(3 * vectors_of(shape))), delta = numbers(vectors_of(shape));
      const auto got = attend(ops, shape, qkv, delta);
      check_gradient(qkv, got.by_qkv, [&](const Floats& input) {
        Floats out(delta.size()), sums(got.log_sums.size());
        ops.attention(shape, input.data(), out.data(), sums.data());
        return weighted(out, delta);
      });
    }
  });
}

TEST_CASE("the processor's attention agrees with the reference, and large scores do not overflow") {
  auto reference = make_reference_ops();
  Numbers numbers;
  for (const int threads : {1, 3}) {
    auto ops = make_cpu_ops(threads);
    for (const AttentionShape& shape : attention_shapes) {
      for (const float size : {1.0f, 30.0f}) {
        CAPTURE(shape.length);
        CAPTURE(shape.head_size);
        const Floats qkv = times(size, numbers(3 * vectors_of(shape))), delta = numbers(vectors_of(shape));
        const auto expected = attend(*reference, shape, qkv, delta), got = attend(*ops, shape, qkv, delta);
        // A score is a rounded sum of head_size products; its exponential may be wrong by this bound.
        const double bound = 1e-6 * size * size * size * shape.head_size;
        CHECK(furthest_apart(got.out, expected.out) <= bound);
        CHECK(furthest_apart(got.log_sums, expected.log_sums) <= bound);
        CHECK(furthest_apart(got.by_qkv, expected.by_qkv) <= 10 * bound);
      }
    }
  }
}

TEST_CASE("the output of attention at a position does not depend on later positions of the input") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const AttentionShape shape{1, 70, 2, 4};
    Floats qkv = numbers(3 * vectors_of(shape));
    const Floats delta(vectors_of(shape), 1);
    const auto before = attend(ops, shape, qkv, delta);
    const std::size_t position = 66, row = 8;
    for (std::size_t i = 3 * row * position; i < qkv.size(); ++i) qkv[i] = 5;
    const auto after = attend(ops, shape, qkv, delta);
    CHECK(std::equal(after.out.begin(), after.out.begin() + position * row, before.out.begin()));
    CHECK(after.out[position * row] != before.out[position * row]);
  });
}

TEST_CASE("if a query, key or value of attention has a NaN, the output and the gradients also have a NaN") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const AttentionShape shape{1, 3, 1, 4};
    for (std::size_t part = 0; part < 3; ++part) {
      Floats qkv = numbers(3 * vectors_of(shape));
      qkv[part * 4] = not_a_number;  // of the first position, which all positions see
      const auto got = attend(ops, shape, qkv, Floats(12, 1));
      CHECK(std::isnan(got.out[0]));
      CHECK(std::isnan(got.by_qkv[0]));
    }
  });
}

TEST_CASE("clip() scales gradients down to the given norm, and leaves smaller gradients unchanged") {
  on_each_implementation([](Ops& ops) {
    Floats small = {3, 4}, large = {30, -40};
    ops.clip(small, 5);
    CHECK(small == Floats{3, 4});
    ops.clip(large, 5);
    CHECK(large[0] == doctest::Approx(3).epsilon(1e-6));
    CHECK(large[1] == doctest::Approx(-4).epsilon(1e-6));
    Floats huge(1000, 1e30f);  // the squares of these numbers are beyond the largest float
    ops.clip(huge, 1);
    CHECK(huge[999] == doctest::Approx(1 / std::sqrt(1000.0)).epsilon(1e-5));
    for (const float bad : {not_a_number, std::numeric_limits<float>::infinity()}) {
      Floats gradients(100, 1);
      gradients[7] = bad;
      ops.clip(gradients, 1);
      CHECK(std::isnan(gradients[0]));
    }
    ops.clip({}, 1);
  });
}

TEST_CASE("three threads compute layer norms and clip gradients with the same bits as one thread") {
  auto alone = make_cpu_ops(1), shared = make_cpu_ops(3);
  Numbers numbers;
  const int rows = 700, columns = 301;
  const Floats x = numbers(area(rows, columns)), weight = numbers(columns), bias = numbers(columns),
               delta = numbers(x.size());
  const auto a = layer_norm(*alone, rows, columns, x, weight, bias, delta),
             b = layer_norm(*shared, rows, columns, x, weight, bias, delta);
  CHECK(a.out == b.out);
  CHECK(a.by_x == b.by_x);
  CHECK(a.by_weight == b.by_weight);
  CHECK(a.by_bias == b.by_bias);
  Floats clipped_alone = x, clipped_shared = x;
  alone->clip(clipped_alone, 1);
  shared->clip(clipped_shared, 1);
  CHECK(clipped_alone == clipped_shared);
  CHECK(clipped_alone != x);
}

TEST_CASE("all instruction sets give the same bits in the loops of layers") {
  const auto all = layer_loops();
  Numbers numbers;
  const int rows = 5, columns = 71;
  const std::size_t size = area(rows, columns);
  const Floats x = times(4, numbers(size)), weight = numbers(columns), delta = numbers(size);
  const auto results = [&](const LayerLoops& loops) {
    Floats with_bias = x, gelu(size), by_gelu = delta, norm(size), mean(rows), scale(rows), by_x = x,
           by_weight(columns), by_bias(columns), scores = x, by_scores = delta, dropped(size),
           pooled(area(rows, 7)), upper(70), lower(70);
    loops.add_bias_gelu(rows, columns, weight.data(), with_bias.data(), gelu.data());
    loops.gelu_backward(size, x.data(), by_gelu.data());
    loops.layer_norm(rows, columns, x.data(), weight.data(), weight.data(), norm.data(), mean.data(),
                     scale.data());
    loops.layer_norm_backward(rows, columns, x.data(), weight.data(), mean.data(), scale.data(), delta.data(),
                              by_x.data());
    loops.layer_norm_gradients(rows, columns, columns, x.data(), mean.data(), scale.data(), delta.data(),
                               by_weight.data(), by_bias.data());
    float largest = 0;
    const float sum = loops.attention_weights(50, columns, 0.3f, scores.data(), &largest);
    loops.attention_weights_backward(50, columns, 0.3f, 3, 0.1f, scores.data(), by_scores.data());
    loops.dropout(size, {0.3f, 1, 2, 3}, x.data(), dropped.data());
    loops.max_pool(10, 7, x.data(), x.data() + 70, pooled.data());
    loops.max_pool_backward(10, 7, x.data(), x.data() + 70, delta.data(), upper.data(), lower.data());
    const WindowLines lines{.count = 9, .stride = 30, .channels = 7, .width = 21, .before = 7, .size = 14};
    Floats windows(size), image = x;
    loops.copy_windows(lines, x.data(), windows.data());
    loops.add_windows(lines, delta.data(), image.data());
    Floats exponentials(size);
    float top = 0;
    const auto all_sums =
                   static_cast<float>(loops.exponentials(columns, x.data(), exponentials.data(), &top)),
               log = static_cast<float>(loops.log_of_exponentials(columns, x.data()));
    Floats everything = {largest,
                         sum,
                         all_sums,
                         top,
                         log,
                         loops.dot(columns, x.data(), delta.data()),
                         static_cast<float>(loops.sum_of_squares(size, x.data()))};
    for (const Floats* part :
         {&with_bias, &gelu, &by_gelu, &norm, &mean, &scale, &by_x, &by_weight, &by_bias, &scores, &by_scores,
          &dropped, &pooled, &upper, &lower, &windows, &image, &exponentials}) {
      everything.insert(everything.end(), part->begin(), part->end());
    }
    return everything;
  };
  const Floats portable = results(all.back());
  for (const LayerLoops& loops : all) {
    CAPTURE(loops.name);
    CHECK(results(loops) == portable);
  }
}
