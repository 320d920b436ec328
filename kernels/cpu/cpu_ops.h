// Ops for processors.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace mlk::kernels {

// The fastest Ops for this processor. Products of matrices use our own code, or oneDNN if it was there at
// build time (cpu_ops.cpp chooses between the two). Most other operations use our own vector loops. threads:
// how many threads share a large operation, at least 1. Between operations, the threads block
// (thread_pool.h). With Precision::bfloat16 on a processor without bfloat16 products, the products are
// emulated. Emulated products are as exact as real ones, but no faster than products of float32.
std::unique_ptr<Ops> make_cpu_ops(int threads = 1, Precision precision = Precision::float32);

// Whether gemm with Precision::bfloat16 uses this processor's own instructions for bfloat16 (AVX512-BF16,
// AMX). Only oneDNN has such products.
bool multiplies_bfloat16();

}  // namespace mlk::kernels
