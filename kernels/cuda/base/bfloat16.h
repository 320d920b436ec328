// Matrices of bfloat16 in scratch memory: the rounded inputs of products.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "kernels/bfloat16.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {

// Rows of a rounded matrix are padded with zeros to a multiple of 8 numbers, which is 16 bytes.
constexpr std::size_t padded(std::size_t columns) { return (columns + 7) / 8 * 8; }

// out[rows, padded(columns)] = x[rows, columns], rounded.
void round_to_bfloat16(cudaStream_t stream, std::size_t rows, std::size_t columns, const float* x,
                       BFloat16* out);

// out = x, rounded. out is aligned to 8 bytes where x is aligned to 16 bytes.
void round_numbers(cudaStream_t stream, std::size_t size, const float* x, BFloat16* out);

// Ops::gemm of rounded matrices, whose stored rows are padded. The product has as many blocks as gemm_fast
// (kernels.h).
void gemm_bfloat16(cudaStream_t stream, kernels::Transpose transpose_a, kernels::Transpose transpose_b, int m,
                   int n, int k, float alpha, const BFloat16* a, const BFloat16* b, float beta, float* c,
                   const ProductShares& shares);

// Ops::attention and its backward pass, for rounded qkv and delta without padding. Only for shapes for which
// have_fast_attention() is true. Weights and their gradients are also rounded before they are multiplied.
void attention_bfloat16(cudaStream_t stream, const kernels::AttentionShape& shape, const BFloat16* qkv,
                        float* out, float* log_sums);
void attention_backward_bfloat16(cudaStream_t stream, const kernels::AttentionShape& shape,
                                 const BFloat16* qkv, const float* log_sums, const BFloat16* delta,
                                 const float* dots, float* qkv_gradient);

// Prepares the fast backward passes in one pass over `out`: dots[batch, heads, length] = out . delta for each
// head of a position. If `rounded` is not null, delta is rounded and stored there.
void prepare_backward(cudaStream_t stream, const kernels::AttentionShape& shape, const float* out,
                      const float* delta, BFloat16* rounded, float* dots);

}  // namespace mlk::cuda
