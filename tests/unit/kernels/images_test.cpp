// Convolution, max pool and dropout.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/dropout.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/kernels/gradients.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("kernels/images");

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

std::size_t count_of(const ImageShape& shape) { return area(shape.pixels(), shape.channels); }
std::size_t pooled(const ImageShape& shape) {
  return area(shape.batch * (shape.height / 2) * (shape.width / 2), shape.channels);
}

struct Convolution {
  Floats out, by_x, by_weight;
};

Convolution convolve(Ops& ops, const ImageShape& shape, int outputs, int kernel, const Floats& x,
                     const Floats& weight, const Floats& delta) {
  Convolution got{Floats(delta.size(), not_a_number), Floats(x.size(), not_a_number),
                  Floats(weight.size(), not_a_number)};
  ops.convolve(shape, outputs, kernel, x.data(), weight.data(), got.out.data());
  ops.convolve_backward(shape, outputs, kernel, x.data(), weight.data(), delta.data(), got.by_x.data(),
                        got.by_weight.data());
  return got;
}

}  // namespace

TEST_CASE(
    "a convolution sums up the weighted pixels of the square around each pixel, with zeros beyond the "
    "edges") {
  on_each_implementation([](Ops& ops) {
    const Floats x = {1, 2, 3, 4, 5, 6};  // two rows of three pixels
    Floats weight = {0, 0, 0, 0, 1, 10, 0, 100, 0}, out(6);
    ops.convolve({1, 2, 3, 1}, 1, 3, x.data(), weight.data(), out.data());
    CHECK(out == Floats{1 + 20 + 400, 2 + 30 + 500, 3 + 600, 4 + 50, 5 + 60, 6});
    const Floats pixels = {1, 2, /**/ 3, 4}, mixing = {1, 10, /**/ 2, 3};  // two channels to two
    out.resize(4);
    ops.convolve({1, 1, 2, 2}, 2, 1, pixels.data(), mixing.data(), out.data());
    CHECK(out == Floats{21, 8, 43, 18});
  });
}

TEST_CASE("the gradients of a convolution agree with finite differences") {
  on_each_implementation([](Ops& ops) {
    Numbers numbers;
    const ImageShape shape{2, 4, 5, 3};
    const int outputs = 2, kernel = 3;
    const Floats x = numbers(count_of(shape)), weight = numbers(area(outputs, 27)),
                 delta = numbers(area(shape.pixels(), outputs));
    const auto got = convolve(ops, shape, outputs, kernel, x, weight, delta);
    const auto loss = [&](const Floats& input, const Floats& w) {
      Floats out(delta.size());
      ops.convolve(shape, outputs, kernel, input.data(), w.data(), out.data());
      return weighted(out, delta);
    };
    check_gradient(x, got.by_x, [&](const Floats& input) { return loss(input, weight); });
    check_gradient(weight, got.by_weight, [&](const Floats& w) { return loss(x, w); });
  });
}

TEST_CASE("the processor's convolution agrees with the reference, with one thread and with three") {
  auto reference = make_reference_ops();
  Numbers numbers;
  struct Case {
    ImageShape shape;
    int outputs, kernel;
  };
  const Case cases[] = {{{0, 3, 3, 1}, 2, 3}, {{1, 1, 1, 1}, 1, 5},    {{2, 5, 7, 3}, 4, 3},
                        {{3, 2, 9, 5}, 3, 5}, {{7, 33, 31, 4}, 17, 3}, {{5, 24, 24, 32}, 9, 3}};
  for (const int threads : {1, 3}) {
    auto ops = make_cpu_ops(threads);
    for (const auto& [shape, outputs, kernel] : cases) {
      CAPTURE(shape.width);
      CAPTURE(threads);
      const int inner = kernel * kernel * shape.channels;
      const Floats x = numbers(count_of(shape)), weight = numbers(area(outputs, inner)),
                   delta = numbers(area(shape.pixels(), outputs));
      const auto expected = convolve(*reference, shape, outputs, kernel, x, weight, delta),
                 got = convolve(*ops, shape, outputs, kernel, x, weight, delta);
      CHECK(furthest_apart(got.out, expected.out) <= 1e-6 * inner);
      CHECK(furthest_apart(got.by_x, expected.by_x) <= 1e-6 * kernel * kernel * outputs);
      CHECK(furthest_apart(got.by_weight, expected.by_weight) <= 1e-6 * (shape.pixels() + 1));
      Floats by_weight(weight.size());
      ops->convolve_backward(shape, outputs, kernel, x.data(), weight.data(), delta.data(), nullptr,
                             by_weight.data());
      CHECK(by_weight == got.by_weight);
    }
  }
}

TEST_CASE("a max pool gives the largest of four numbers, and the gradient goes to the first such number") {
  on_each_implementation([](Ops& ops) {
    // Two channels; the last row and column are left over.
    const ImageShape shape{1, 3, 3, 2};
    const Floats x = {1, 8, 2, 8, 9, 9, /**/ 3, 5, 3, 8, 9, 9, /**/ 9, 9, 9, 9, 9, 9};
    Floats out(2), by_x(x.size(), not_a_number);
    ops.max_pool(shape, x.data(), out.data());
    CHECK(out == Floats{3, 8});
    const Floats delta = {5, 7};
    ops.max_pool_backward(shape, x.data(), delta.data(), by_x.data());
    Floats expected(x.size());
    expected[6] = 5;
    expected[1] = 7;
    CHECK(by_x == expected);
  });
}

TEST_CASE("the processor's max pool gives the bits of the reference, also where numbers are equal or NaN") {
  auto reference = make_reference_ops();
  Numbers numbers;
  for (const int threads : {1, 3}) {
    auto ops = make_cpu_ops(threads);
    for (const ImageShape& shape : {ImageShape{0, 4, 4, 3},
                                    {1, 1, 1, 1},
                                    {2, 2, 3, 5},
                                    {1, 7, 6, 33},
                                    {3, 8, 9, 16},
                                    {7, 33, 34, 32}}) {
      CAPTURE(shape.channels);
      CAPTURE(threads);
      Floats x = numbers(count_of(shape));
      for (float& value : x) value = std::round(value * 2) / 2;  // many are equal
      const Floats delta = numbers(pooled(shape));
      Floats expected(delta.size()), out(delta.size()), expected_by_x(x.size()), by_x(x.size(), not_a_number);
      reference->max_pool(shape, x.data(), expected.data());
      ops->max_pool(shape, x.data(), out.data());
      CHECK(out == expected);
      reference->max_pool_backward(shape, x.data(), delta.data(), expected_by_x.data());
      ops->max_pool_backward(shape, x.data(), delta.data(), by_x.data());
      CHECK(by_x == expected_by_x);
    }
  }
  on_each_implementation([](Ops& each) {
    for (std::size_t i = 0; i < 4; ++i) {
      Floats x = {1, 2, 3, 4}, by_x(4);
      x[i] = not_a_number;
      float out = 0;
      const float delta = 1;
      each.max_pool({1, 2, 2, 1}, x.data(), &out);
      CHECK(std::isnan(out));
      each.max_pool_backward({1, 2, 2, 1}, x.data(), &delta, by_x.data());
      CHECK(by_x[i] == 1);
    }
  });
}

TEST_CASE("philox() returns the numbers in the test vectors of Philox's authors") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("dropout() keeps the mean, and chooses the dropped numbers by seed, stream and place") {
  on_each_implementation([](Ops& ops) {
    const DropoutMask mask{0.25f, 7, 3, 1000};
    const Floats ones(100'000, 1);
    Floats out(ones.size()), part(501);
    ops.dropout(mask, ones, out);
    double sum = 0;
    for (const float value : out) {
      sum += static_cast<double>(value);
      if (value != 0 && value != 1 / 0.75f) FAIL("neither dropped nor kept: ", value);
    }
    CHECK(sum / static_cast<double>(out.size()) == doctest::Approx(1).epsilon(0.01));
    for (const std::size_t at : {1, 2, 3, 66}) {
      ops.dropout({0.25f, 7, 3, 1000 + at}, std::span(ones).first(part.size()), part);
      CHECK(std::equal(part.begin(), part.end(), out.begin() + static_cast<std::ptrdiff_t>(at)));
    }
    for (const DropoutMask& other : {DropoutMask{0.25f, 8, 3, 1000}, {0.25f, 7, 4, 1000}}) {
      ops.dropout(other, std::span(ones).first(part.size()), part);
      CHECK(!std::equal(part.begin(), part.end(), out.begin()));
    }
    Floats same = ones;
    ops.dropout(mask, same, same);
    CHECK(same == out);
    ops.dropout({0, 7, 3, 0}, ones, out);
    CHECK(out == ones);
    ops.dropout(mask, {}, {});
  });
}

TEST_CASE("the processor's dropout gives the bits of the reference, and a NaN that it keeps stays NaN") {
  auto reference = make_reference_ops(), ops = make_cpu_ops(3);
  Numbers numbers;
  for (const std::size_t size : {1, 5, 63, 64, 67, 300'001}) {
    Floats x = numbers(size), expected(size), out(size);
    if (size > 5) x[5] = not_a_number;
    const DropoutMask mask{0.5f, 0x123456789abcdef, 0xfedcba987654321, 0x1'0000'0000 - 40};
    reference->dropout(mask, x, expected);
    ops->dropout(mask, x, out);
    if (size > 5) CHECK(std::isnan(out[5]) == mask.keeps(mask.first + 5));
    if (size > 5) expected[5] = out[5] = 0;
    CHECK(out == expected);
  }
}
