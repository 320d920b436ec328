// Tests every implementation of Ops against the reference, on sizes that are no multiple of a vector,
// and the reference against definitions.
#include "kernels/ops.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("kernels/ops");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::furthest_apart;
using mlk::test::not_a_number;
using mlk::test::Numbers;

namespace {

const SgdStep sgd_steps[] = {{0.1f, 0.9f, 0, false}, {0.3f, 0.7f, 0.01f, false}, {0.3f, 0.7f, 0.01f, true}};
const AdamStep adam_step = {.lr = 0.1f,
                            .epsilon = 1e-8f,
                            .l2 = 0.01f,
                            .decay = 0.001f,
                            .beta1 = 0.9f,
                            .one_minus_beta1 = 0.1f,
                            .beta2 = 0.999f,
                            .one_minus_beta2 = 0.001f};

// Returns the loss, which the operation stores in memory.
float loss_backward(Ops& ops, int rows, int classes, const float* logits, const std::int32_t* labels,
                    float* delta) {
  float loss = not_a_number;
  ops.softmax_cross_entropy_backward(rows, classes, logits, labels, delta, &loss);
  return loss;
}

void check_close(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  CHECK(furthest_apart(a, b) <= tolerance);
}

}  // namespace

TEST_CASE("the reference multiplies matrices, transposed or not") {
  auto ops = make_reference_ops();
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};  // [2,3], or [3,2] transposed: 1 3 5 / 2 4 6
  const std::vector<float> b = {1, 0, 2, 1, 0, 1};  // [3,2], or [2,3] transposed: 1 2 0 / 0 1 1
  std::vector<float> c = {100, 100, 100, 100};
  ops->gemm(Transpose::no, Transpose::no, 2, 2, 3, 1, a.data(), b.data(), 0, c.data());
  CHECK(c == std::vector<float>{5, 5, 14, 11});
  ops->gemm(Transpose::no, Transpose::yes, 2, 2, 3, 1, a.data(), b.data(), 0, c.data());
  CHECK(c == std::vector<float>{7, 4, 16, 10});
  ops->gemm(Transpose::yes, Transpose::no, 2, 2, 3, 1, a.data(), b.data(), 0, c.data());
  CHECK(c == std::vector<float>{7, 8, 10, 10});
  c = {1, 2, 3, 4};
  ops->gemm(Transpose::no, Transpose::no, 2, 2, 3, 2, a.data(), b.data(), 10, c.data());
  CHECK(c == std::vector<float>{20, 30, 58, 62});
}

TEST_CASE(
    "the processor's gemm agrees with the reference for every transposition, also if sizes do not fill whole "
    "vectors") {
  auto reference = make_reference_ops(), ops = make_cpu_ops();
  Numbers numbers;
  const int sizes[][3] = {{1, 1, 1},    {1, 7, 3},     {3, 1, 17},   {5, 9, 1},
                          {13, 31, 29}, {64, 10, 128}, {33, 65, 127}};
  for (const auto& [m, n, k] : sizes) {
    for (Transpose ta : {Transpose::no, Transpose::yes}) {
      for (Transpose tb : {Transpose::no, Transpose::yes}) {
        for (float beta : {0.0f, 1.0f, 0.5f}) {
          const auto a = numbers(area(m, k)), b = numbers(area(k, n));
          auto expected = numbers(area(m, n)), c = expected;
          reference->gemm(ta, tb, m, n, k, 0.7f, a.data(), b.data(), beta, expected.data());
          ops->gemm(ta, tb, m, n, k, 0.7f, a.data(), b.data(), beta, c.data());
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          check_close(c, expected, 1e-6 * k + 1e-6);
        }
      }
    }
  }
}

TEST_CASE("with beta 0, gemm() overwrites NaN") {
  const std::vector<float> a = {1, 2, 3, 4}, b = {1, 0, 0, 1};
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    std::vector<float> c(4, not_a_number);
    ops->gemm(Transpose::no, Transpose::no, 2, 2, 2, 1, a.data(), b.data(), 0, c.data());
    CHECK(c == a);
  }
}

TEST_CASE(
    "gemm() with an inner dimension of 0 multiplies the result by beta, and writes zeros if beta is 0") {
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    std::vector<float> c = {not_a_number, 4};
    ops->gemm(Transpose::no, Transpose::no, 1, 2, 0, 1, nullptr, nullptr, 0, c.data());
    CHECK(c == std::vector<float>{0, 0});
    c = {3, 4};
    ops->gemm(Transpose::no, Transpose::yes, 1, 2, 0, 1, nullptr, nullptr, 0.5f, c.data());
    CHECK(c == std::vector<float>{1.5f, 2});
  }
}

TEST_CASE("elementwise operations give the same bits on the processor as in the reference") {
  auto reference = make_reference_ops(), ops = make_cpu_ops();
  Numbers numbers;
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{1, 1}, {3, 5}, {7, 16}, {2, 33}, {64, 129}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const std::size_t size = area(rows, columns);
    const auto bias = numbers(static_cast<std::size_t>(columns)), x = numbers(size), y = numbers(size);

    auto expected = x, got = x;
    reference->add_bias(rows, columns, bias.data(), expected.data());
    ops->add_bias(rows, columns, bias.data(), got.data());
    CHECK(got == expected);

    expected = got = x;
    reference->add_bias_relu(rows, columns, bias.data(), expected.data());
    ops->add_bias_relu(rows, columns, bias.data(), got.data());
    CHECK(got == expected);
    const auto output = got;

    for (const SgdStep& step : sgd_steps) {
      auto velocity = y, expected_velocity = y;
      expected = got = x;
      reference->sgd(expected, output, expected_velocity, step);
      ops->sgd(got, output, velocity, step);
      CHECK(got == expected);
      CHECK(velocity == expected_velocity);
    }

    auto mean = y, expected_mean = y, square = output, expected_square = output;  // squares: none is negative
    expected = got = x;
    reference->adam(expected, y, expected_mean, expected_square, adam_step);
    ops->adam(got, y, mean, square, adam_step);
    CHECK(got == expected);
    CHECK(mean == expected_mean);
    CHECK(square == expected_square);

    for (const float factor : {1.0f, 0.3f, 0.0f}) {
      reference->scale(factor, y, expected);
      ops->scale(factor, y, got);
      CHECK(got == expected);
      reference->add_scaled(x, factor, y, expected);
      ops->add_scaled(x, factor, y, got);
      CHECK(got == expected);
    }

    // The reference adds up rows in double, so these sums may have other bits.
    std::vector<float> expected_sum(static_cast<std::size_t>(columns)),
        sum(expected_sum.size(), not_a_number);
    expected = got = y;
    reference->bias_relu_backward(rows, columns, output.data(), expected.data(), expected_sum.data());
    ops->bias_relu_backward(rows, columns, output.data(), got.data(), sum.data());
    CHECK(got == expected);
    check_close(sum, expected_sum, 1e-5);
    reference->bias_backward(rows, columns, y.data(), expected_sum.data());
    ops->bias_backward(rows, columns, y.data(), sum.data());
    check_close(sum, expected_sum, 1e-5);
  }
}

TEST_CASE("scale() and add_scaled() work in place and into another vector") {
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    const auto ops = make();
    CAPTURE(ops->name());
    Numbers numbers;
    const auto x = numbers(71), y = numbers(71);
    std::vector<float> out(71), sum = x, other = y;
    ops->add_scaled(x, -0.5f, y, out);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(out[i] == x[i] + -0.5f * y[i]);
    ops->add_scaled(sum, -0.5f, y, sum);
    CHECK(sum == out);
    ops->add_scaled(x, -0.5f, other, other);
    CHECK(other == out);
    ops->scale(4, x, out);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(out[i] == 4 * x[i]);
    sum = x;
    ops->scale(4, sum, sum);
    CHECK(sum == out);
  }
}

TEST_CASE("scale() with the factor 0 turns NaN into 0") {
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    const auto ops = make();
    const std::vector<float> x(19, not_a_number);
    std::vector<float> out(19, 1);
    ops->scale(0, x, out);
    CHECK(out == std::vector<float>(19, 0));
  }
}

TEST_CASE("gather_rows() and gather_labels() give the rows and labels of the given ids, which may repeat") {
  const std::vector<std::uint64_t> ids = {5, 0, 5, 6, 1, 2, 3, 4, 0};
  for (const int columns : {1, 3, 130}) {
    CAPTURE(columns);
    const auto width = static_cast<std::size_t>(columns);
    std::vector<std::uint8_t> table(7 * width);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i * 37);
    for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
      const auto ops = make();
      CAPTURE(ops->name());
      const auto samples = ops->hold(table);
      std::vector<float> rows(ids.size() * width, not_a_number);
      ops->gather_rows(ids, columns, samples.data(), 1.0f / 255, rows.data());
      bool same = true;
      for (std::size_t i = 0; i < rows.size(); ++i)
        same =
            same && rows[i] == static_cast<float>(table[ids[i / width] * width + i % width]) * (1.0f / 255);
      CHECK(same);
      std::vector<std::int32_t> labels(ids.size());
      ops->gather_labels(ids, samples.data(), labels.data());
      for (std::size_t i = 0; i < ids.size(); ++i) CHECK(labels[i] == table[ids[i]]);
      ops->gather_rows({}, columns, samples.data(), 1, nullptr);
      ops->gather_labels({}, samples.data(), nullptr);
    }
  }
}

TEST_CASE("all instruction sets give the same bits in elementwise loops") {
  const auto all = vector_loops();
  REQUIRE(!all.empty());
  Numbers numbers;
  const int rows = 9, columns = 71;
  const std::size_t size = area(rows, columns);
  const auto x = numbers(size), y = numbers(size), bias = numbers(columns);
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 37);
  const VectorLoops& portable = all.back();
  for (const VectorLoops& loops : all) {
    CAPTURE(loops.name);
    auto a = x, b = x, ma = y, mb = y;
    loops.add_bias(rows, columns, bias.data(), a.data());
    portable.add_bias(rows, columns, bias.data(), b.data());
    CHECK(a == b);
    loops.add_bias_relu(rows, columns, bias.data(), a.data());
    portable.add_bias_relu(rows, columns, bias.data(), b.data());
    CHECK(a == b);
    for (const SgdStep& step : sgd_steps) {
      loops.sgd(size, a.data(), y.data(), ma.data(), step);
      portable.sgd(size, b.data(), y.data(), mb.data(), step);
      CHECK(a == b);
      CHECK(ma == mb);
    }
    std::vector<float> square_a(size, 0.5f), square_b(size, 0.5f);
    loops.adam(size, a.data(), y.data(), ma.data(), square_a.data(), adam_step);
    portable.adam(size, b.data(), y.data(), mb.data(), square_b.data(), adam_step);
    CHECK(a == b);
    CHECK(ma == mb);
    CHECK(square_a == square_b);
    loops.scale(size, 0.3f, y.data(), a.data());
    portable.scale(size, 0.3f, y.data(), b.data());
    CHECK(a == b);
    loops.add_scaled(size, x.data(), 0.3f, y.data(), a.data());
    portable.add_scaled(size, x.data(), 0.3f, y.data(), b.data());
    CHECK(a == b);
    for (std::size_t i = 0; i < size; ++i) a[i] = b[i] = static_cast<float>(i) * -0.15f;
    loops.exponentials(size, a.data());
    portable.exponentials(size, b.data());
    CHECK(a == b);
    for (std::size_t i = 0; i < size; ++i)
      CHECK(a[i] ==
            doctest::Approx(std::exp(std::max(-80.0, static_cast<double>(static_cast<float>(i) * -0.15f))))
                .epsilon(5e-7));
    std::vector<float> sum_a(columns), sum_b(columns);
    loops.bias_relu_backward(rows, columns, columns, x.data(), ma.data(), sum_a.data());
    portable.bias_relu_backward(rows, columns, columns, x.data(), mb.data(), sum_b.data());
    CHECK(ma == mb);
    CHECK(sum_a == sum_b);
    loops.bias_backward(rows, columns, columns, x.data(), sum_a.data());
    portable.bias_backward(rows, columns, columns, x.data(), sum_b.data());
    CHECK(sum_a == sum_b);
    loops.scale_bytes(size, bytes.data(), 1.0f / 255, a.data());
    portable.scale_bytes(size, bytes.data(), 1.0f / 255, b.data());
    CHECK(a == b);
    CHECK(a[1] == 37 * (1.0f / 255));
  }
}

TEST_CASE("a ReLU does not turn NaN into 0") {
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    const std::vector<float> bias(40, 1);
    std::vector<float> x(40, not_a_number);
    x[3] = -5;
    x[4] = 5;
    ops->add_bias_relu(1, 40, bias.data(), x.data());
    CHECK(std::isnan(x[0]));
    CHECK(std::isnan(x[39]));
    CHECK(x[3] == 0);
    CHECK(x[4] == 6);
  }
}

TEST_CASE("cross entropy of equal logits is the logarithm of the number of classes") {
  auto ops = make_cpu_ops();
  const std::vector<float> logits(3 * 7, 2.5f);
  const std::vector<std::int32_t> labels = {0, 6, 3};
  CHECK(ops->softmax_cross_entropy(3, 7, logits.data(), labels.data()) == doctest::Approx(std::log(7.0)));
}

TEST_CASE("the mean loss is 0 if there are no rows") {
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    const auto ops = make();
    const float logit = 1;
    const std::int32_t label = 0;
    float delta = 7;
    CHECK(ops->softmax_cross_entropy(0, 1, &logit, &label) == 0);
    CHECK(loss_backward(*ops, 0, 1, &logit, &label, &delta) == 0);
    CHECK(delta == 7);
  }
}

TEST_CASE("cross entropy does not overflow, and NaN logits give a NaN loss") {
  auto ops = make_cpu_ops();
  const std::vector<std::int32_t> labels = {1};
  std::vector<float> logits = {1e4f, -1e4f, 0};
  CHECK(ops->softmax_cross_entropy(1, 3, logits.data(), labels.data()) == doctest::Approx(2e4));
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<float> bad = {0, 0, 0};
    bad[i] = not_a_number;
    CHECK(std::isnan(ops->softmax_cross_entropy(1, 3, bad.data(), labels.data())));
  }
  logits[0] = std::numeric_limits<float>::infinity();
  CHECK(!std::isfinite(ops->softmax_cross_entropy(1, 3, logits.data(), labels.data())));
}

TEST_CASE("the gradient of the cross entropy agrees with finite differences, also in place") {
  for (auto make : {make_reference_ops, +[] { return make_cpu_ops(); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    Numbers numbers;
    const int rows = 5, classes = 11;
    auto logits = numbers(area(rows, classes));
    const auto labels = numbers.labels(rows, classes);
    std::vector<float> delta(logits.size());
    const float loss = loss_backward(*ops, rows, classes, logits.data(), labels.data(), delta.data());
    CHECK(loss == doctest::Approx(ops->softmax_cross_entropy(rows, classes, logits.data(), labels.data())));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const float before = logits[i], h = 1.0f / 64;
      logits[i] = before + h;
      const double up = ops->softmax_cross_entropy(rows, classes, logits.data(), labels.data());
      logits[i] = before - h;
      const double down = ops->softmax_cross_entropy(rows, classes, logits.data(), labels.data());
      logits[i] = before;
      CHECK((up - down) / (2 * h) == doctest::Approx(delta[i]).epsilon(1e-3).scale(0.1));
    }
    loss_backward(*ops, rows, classes, logits.data(), labels.data(), logits.data());
    CHECK(logits == delta);
  }
}

TEST_CASE("the processor's cross entropy and its gradient agree with the reference, also for huge logits") {
  auto reference = make_reference_ops(), ops = make_cpu_ops();
  Numbers numbers;
  const std::pair<int, int> shapes[] = {{1, 1},   {3, 2},     {64, 10},  {301, 63},
                                        {70, 64}, {130, 777}, {7, 1001}, {2, 30'000}};
  for (const auto& [rows, classes] : shapes) {
    CAPTURE(classes);
    for (const float scale : {1.0f, 30.0f, 1000.0f}) {
      auto logits = numbers(area(rows, classes));
      for (float& x : logits) x *= scale;
      const auto labels = numbers.labels(rows, classes);
      std::vector<float> expected(logits.size()), delta(logits.size());
      const float loss =
          loss_backward(*reference, rows, classes, logits.data(), labels.data(), expected.data());
      CHECK(loss_backward(*ops, rows, classes, logits.data(), labels.data(), delta.data()) ==
            doctest::Approx(loss).epsilon(1e-6));
      CHECK(ops->softmax_cross_entropy(rows, classes, logits.data(), labels.data()) ==
            doctest::Approx(loss).epsilon(1e-6));
      check_close(delta, expected, 3e-7 / rows);
    }
  }
  for (const float bad : {not_a_number, std::numeric_limits<float>::infinity()}) {
    for (std::size_t i = 0; i < 9; ++i) {
      std::vector<float> logits(9, -1);
      logits[i] = bad;
      const std::int32_t label = 4;
      CHECK(std::isnan(loss_backward(*ops, 1, 9, logits.data(), &label, logits.data())));
    }
  }
}

TEST_CASE("a row counts as correct if the first of its largest logits is the logit of the label") {
  auto ops = make_cpu_ops();
  const std::vector<float> logits = {1, 3, 2, /**/ 5, 5, 0, /**/ 5, 5, 0, /**/ 0, 0, 1};
  const std::vector<std::int32_t> labels = {1, 0, 1, 0};
  CHECK(ops->count_correct(4, 3, logits.data(), labels.data()) == 2);
  CHECK(ops->count_correct(0, 3, nullptr, nullptr) == 0);
}
