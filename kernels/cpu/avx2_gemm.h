// A product for processors with AVX2 and FMA.
#pragma once

#include <vector>

#include "kernels/ops.h"

namespace mlk::kernels {

bool has_avx2_gemm();  // true if this processor can run it

// Ops::gemm. lda, ldb, ldc: how many numbers lie between the starts of two adjacent stored rows of `a`, `b`
// and `c`. k is at least 1. space: for packed blocks; it grows to 1.3 MiB at most. Calls with different
// spaces may run side by side. If several calls compute parts of c that begin at multiples of 16, c has the
// same bits as after one call.
void avx2_gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
               int lda, const float* b, int ldb, float beta, float* c, int ldc, std::vector<float>& space);

}  // namespace mlk::kernels
