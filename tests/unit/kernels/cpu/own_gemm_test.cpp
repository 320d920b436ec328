// Tests our own products: several blocks in each direction, edges of tiles, and rows that lie apart.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/cpu/avx2_gemm.h"
#include "kernels/cpu/avx512_gemm.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("kernels/cpu/own_gemm");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::Numbers;

namespace {

using Gemm = decltype(&avx2_gemm);

// The products that this processor can run.
std::vector<Gemm> own_gemms() {
  std::vector<Gemm> gemms;
  if (has_avx2_gemm()) gemms.push_back(avx2_gemm);
  if (has_avx512_gemm()) gemms.push_back(avx512_gemm);
  if (gemms.size() < 2) MESSAGE("skipped: some products of our own: this processor lacks AVX2 or AVX-512");
  return gemms;
}

void check_against_the_reference(Gemm gemm, int m, int n, int k) {
  Numbers numbers;
  std::vector<float> space;
  for (Transpose ta : {Transpose::no, Transpose::yes}) {
    for (Transpose tb : {Transpose::no, Transpose::yes}) {
      for (const auto& [alpha, beta] : {std::pair(1.0f, 0.0f), {0.7f, 0.0f}, {0.7f, 1.0f}, {1.0f, 0.5f}}) {
        const bool turned_a = ta == Transpose::yes, turned_b = tb == Transpose::yes;
        const int lda = (turned_a ? m : k) + 3, ldb = (turned_b ? k : n) + 5, ldc = n + 2;
        // The buffers end with the last row: products must not read beyond that row.
        const auto a = numbers(area(turned_a ? k : m, lda) - 3), b = numbers(area(turned_b ? n : k, ldb) - 5);
        auto expected = numbers(area(m, ldc));
        if (beta == 0) {
          for (int i = 0; i < m; ++i) std::fill_n(&expected[area(i, ldc)], n, std::nanf(""));
        }
        auto c = expected;
        reference_gemm(ta, tb, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, expected.data(), ldc);
        gemm(ta, tb, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc, space);
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        double worst = 0, beside = 0;
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < ldc; ++j) {
            const std::size_t at = area(i, ldc) + static_cast<std::size_t>(j);
            double apart = std::abs(static_cast<double>(c[at]) - static_cast<double>(expected[at]));
            if (std::isnan(apart)) apart = HUGE_VAL;
            (j < n ? worst : beside) = std::max(j < n ? worst : beside, apart);
          }
        }
        CHECK(worst <= 1e-6 * k + 1e-6);
        CHECK(beside == 0);
      }
    }
  }
}

void check_that_it_may_be_cut(Gemm gemm) {
  Numbers numbers;
  std::vector<float> space;
  // Some parts are wider than high and some are not, because products may choose their method by the shape.
  const int m = 70, n = 330, k = 400, row = 48, column = 32;
  for (Transpose ta : {Transpose::no, Transpose::yes}) {
    for (Transpose tb : {Transpose::no, Transpose::yes}) {
      for (float beta : {0.0f, 0.5f}) {
        const bool turned_a = ta == Transpose::yes, turned_b = tb == Transpose::yes;
        const int lda = turned_a ? m : k, ldb = turned_b ? k : n;
        const auto a = numbers(area(m, k)), b = numbers(area(k, n));
        auto whole = numbers(area(m, n)), parts = whole;
        gemm(ta, tb, m, n, k, 0.7f, a.data(), lda, b.data(), ldb, beta, whole.data(), n, space);
        for (const auto& [i, rows] : {std::pair(0, row), std::pair(row, m - row)}) {
          for (const auto& [j, columns] : {std::pair(0, column), std::pair(column, n - column)}) {
            gemm(ta, tb, rows, columns, k, 0.7f, a.data() + (turned_a ? i : i * lda), lda,
                 b.data() + (turned_b ? j * ldb : j), ldb, beta, parts.data() + i * n + j, n, space);
          }
        }
        CHECK(parts == whole);
      }
    }
  }
}

}  // namespace

TEST_CASE("our own gemm functions agree with the reference and write nothing outside of the result") {
  const int sizes[][3] = {{1, 1, 1},      {6, 16, 8},     {7, 17, 9},     {4, 8, 3},      {5, 15, 257},
                          {64, 9, 300},   {13, 300, 256}, {23, 1100, 61}, {40, 290, 700}, {230, 33, 20},
                          {435, 16, 270}, {14, 32, 64},   {29, 47, 18},   {530, 70, 30}};
  for (Gemm gemm : own_gemms()) {
    for (const auto& [m, n, k] : sizes) check_against_the_reference(gemm, m, n, k);
    for (int m = 1; m <= 28; ++m) check_against_the_reference(gemm, m, 33, 5);
    for (int n = 1; n <= 33; ++n) check_against_the_reference(gemm, 3, n, 6);
  }
}

TEST_CASE("a result that several calls compute in parts has the same bits as a result of one call") {
  for (Gemm gemm : own_gemms()) check_that_it_may_be_cut(gemm);
}
