// A product for processors with AVX-512.
#pragma once

#include <vector>

#include "kernels/ops.h"

namespace mlk::kernels {

bool has_avx512_gemm();  // true if this processor can run it

// Has the contract of avx2_gemm(), but `space` grows to 290 KiB at most.
void avx512_gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc,
                 std::vector<float>& space);

}  // namespace mlk::kernels
