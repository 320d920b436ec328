// Rounding to bfloat16, and products with bfloat16.
#include "kernels/bfloat16.h"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("kernels/bfloat16");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::furthest_apart;
using mlk::test::Numbers;

TEST_CASE("to_bfloat16() rounds to the nearest number, and to the even one if two are equally near") {
  CHECK(to_bfloat16(0).value() == 0);
  CHECK(to_bfloat16(1).value() == 1);
  CHECK(to_bfloat16(-2.5f).value() == -2.5f);
  CHECK(to_bfloat16(0x1.01p0f).value() == 0x1.00p0f);  // half way: to the even one, which here is below
  CHECK(to_bfloat16(0x1.03p0f).value() == 0x1.04p0f);  // half way: to the even one, which here is above
  CHECK(to_bfloat16(0x1.010002p0f).value() == 0x1.02p0f);
  CHECK(to_bfloat16(0x1.02fffep0f).value() == 0x1.02p0f);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()).value() == std::numeric_limits<float>::infinity());
  CHECK(to_bfloat16(-std::numeric_limits<float>::infinity()).value() ==
        -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(to_bfloat16(std::numeric_limits<float>::quiet_NaN()).value()));
  // This NaN has its payload in the lower half alone, which rounding removes.
  CHECK(std::isnan(to_bfloat16(std::bit_cast<float>(0x7f800001u)).value()));
}

TEST_CASE("the loops of every instruction set round numbers to the same bits as to_bfloat16()") {
  std::vector<float> in;
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 65521)
    in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (const VectorLoops& loops : vector_loops()) {
    CAPTURE(loops.name);
    std::vector<BFloat16> rounded(in.size());
    std::vector<float> alike(in.size());
    loops.round_to_bfloat16(in.size(), in.data(), rounded.data());
    loops.round_like_bfloat16(in.size(), in.data(), alike.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      wrong += rounded[i].bits != to_bfloat16(in[i]).bits;
      wrong += std::bit_cast<std::uint32_t>(alike[i]) != static_cast<std::uint32_t>(rounded[i].bits) << 16;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a product with bfloat16 is the product of the rounded inputs, summed as floats") {
  if (!multiplies_bfloat16())
    MESSAGE("skipped: products of this processor's own: it does not multiply bfloat16");
  Numbers numbers;
  const int sizes[][3] = {{1, 1, 1}, {5, 9, 1}, {13, 31, 29}, {64, 10, 128}, {509, 130, 211}};
  for (const int threads : {1, 3}) {
    auto ops = make_cpu_ops(threads, Precision::bfloat16);
    for (const auto& [m, n, k] : sizes) {
      for (Transpose ta : {Transpose::no, Transpose::yes}) {
        for (Transpose tb : {Transpose::no, Transpose::yes}) {
          const auto a = numbers(area(m, k)), b = numbers(area(k, n));
          std::vector<BFloat16> of_a, of_b;
          for (const float x : a) of_a.push_back(to_bfloat16(x));
          for (const float x : b) of_b.push_back(to_bfloat16(x));
          auto expected = numbers(area(m, n)), c = expected;
          reference_gemm(ta, tb, m, n, k, 0.7f, of_a.data(), ta == Transpose::yes ? m : k, of_b.data(),
                         tb == Transpose::yes ? k : n, 0.5f, expected.data(), n);
          ops->gemm(ta, tb, m, n, k, 0.7f, a.data(), b.data(), 0.5f, c.data());
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          CHECK(furthest_apart(c, expected) <= 1e-6 * k + 1e-6);
        }
      }
    }
  }
}

TEST_CASE("with the precision `bfloat16`, inputs of products are rounded, but sums and results are not") {
  auto ops = make_cpu_ops(1, Precision::bfloat16), reference = make_reference_ops();
  const std::vector<float> fine = {1 + 0x1p-20f, -3 - 0x1p-19f};
  auto sum = fine, expected = fine;
  ops->add_scaled(fine, 1, sum, sum);
  reference->add_scaled(fine, 1, expected, expected);
  CHECK(sum == expected);
  const float one = 1, tiny = 0x1p-20f;
  float c = 1;
  ops->gemm(Transpose::no, Transpose::no, 1, 1, 1, 1, &one, &tiny, 1, &c);
  CHECK(c == 1 + 0x1p-20f);
}
