// The product for AVX2: several blocks in each direction, edges of tiles, and rows that lie apart.
#include "kernels/avx2_gemm.h"

#include <cmath>

#include <doctest/doctest.h>

#include "kernels/reference_ops.h"
#include "tests/unit/kernels/numbers.h"

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::Numbers;

namespace {

bool can_run() {
  if (!has_avx2_gemm()) MESSAGE("skipped: products by avx2_gemm: this processor has no AVX2");
  return has_avx2_gemm();
}

}  // namespace

TEST_CASE("avx2_gemm agrees with the reference and leaves alone what is beside the result") {
  if (!can_run()) return;
  Numbers numbers;
  std::vector<float> space;
  const int sizes[][3] = {{1, 1, 1},      {6, 16, 8},    {7, 17, 9},     {4, 8, 3},
                          {5, 15, 257},   {64, 9, 300},  {13, 300, 256}, {23, 1100, 61},
                          {40, 290, 700}, {230, 33, 20}, {435, 16, 270}};
  for (const auto& [m, n, k] : sizes) {
    for (Transpose ta : {Transpose::no, Transpose::yes}) {
      for (Transpose tb : {Transpose::no, Transpose::yes}) {
        for (float beta : {0.0f, 1.0f, 0.5f}) {
          const bool turned_a = ta == Transpose::yes, turned_b = tb == Transpose::yes;
          const int lda = (turned_a ? m : k) + 3, ldb = (turned_b ? k : n) + 5, ldc = n + 2;
          // The last rows end where they end: nothing beyond may be read.
          const auto a = numbers(area(turned_a ? k : m, lda) - 3),
                     b = numbers(area(turned_b ? n : k, ldb) - 5);
          auto expected = numbers(area(m, ldc)), c = expected;
          reference_gemm(ta, tb, m, n, k, 0.7f, a.data(), lda, b.data(), ldb, beta, expected.data(), ldc);
          avx2_gemm(ta, tb, m, n, k, 0.7f, a.data(), lda, b.data(), ldb, beta, c.data(), ldc, space);
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          double worst = 0, beside = 0;
          for (int i = 0; i < m; ++i) {
            for (int j = 0; j < ldc; ++j) {
              const std::size_t at = area(i, ldc) + static_cast<std::size_t>(j);
              const double apart = std::abs(static_cast<double>(c[at]) - static_cast<double>(expected[at]));
              (j < n ? worst : beside) = std::max(j < n ? worst : beside, apart);
            }
          }
          CHECK(worst <= 1e-6 * k + 1e-6);
          CHECK(beside == 0);
        }
      }
    }
  }
}

TEST_CASE("the bits of a product by avx2_gemm do not depend on how it is cut") {
  if (!can_run()) return;
  Numbers numbers;
  std::vector<float> space;
  const int m = 70, n = 330, k = 400, row = 32, column = 48;
  for (Transpose ta : {Transpose::no, Transpose::yes}) {
    for (Transpose tb : {Transpose::no, Transpose::yes}) {
      const bool turned_a = ta == Transpose::yes, turned_b = tb == Transpose::yes;
      const int lda = turned_a ? m : k, ldb = turned_b ? k : n;
      const auto a = numbers(area(m, k)), b = numbers(area(k, n));
      auto whole = numbers(area(m, n)), parts = whole;
      avx2_gemm(ta, tb, m, n, k, 0.7f, a.data(), lda, b.data(), ldb, 0.5f, whole.data(), n, space);
      for (const auto& [i, rows] : {std::pair(0, row), std::pair(row, m - row)}) {
        for (const auto& [j, columns] : {std::pair(0, column), std::pair(column, n - column)}) {
          avx2_gemm(ta, tb, rows, columns, k, 0.7f, a.data() + (turned_a ? i : i * lda), lda,
                    b.data() + (turned_b ? j * ldb : j), ldb, 0.5f, parts.data() + i * n + j, n, space);
        }
      }
      CHECK(parts == whole);
    }
  }
}
