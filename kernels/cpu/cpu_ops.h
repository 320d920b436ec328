// Ops for processors.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace mlk::kernels {

// The fastest Ops for this processor. Products of matrices use our own code, or oneDNN if it was there at
// build time (cpu_ops.cpp says which is used when). The rest uses our own vector loops. threads, at least 1:
// how many threads share a large operation; they block between operations (thread_pool.h). With
// Precision::bfloat16 on a processor without bfloat16 products, these are emulated: the results are as good,
// and no faster than float32.
std::unique_ptr<Ops> make_cpu_ops(int threads = 1, Precision precision = Precision::float32);

// True if gemm of make_cpu_ops uses bfloat16 products of this processor (AVX512-BF16, AMX) by oneDNN.
bool multiplies_bfloat16();

}  // namespace mlk::kernels
