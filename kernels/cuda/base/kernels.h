// The operations of kernels/ops.h, as functions that put kernels at the end of a stream. All addresses are
// addresses of the device, and the contracts are those of Ops. Where Ops returns a result, a function here
// stores the result on the device. Results have the same bits in every run. None of these functions waits.
// Errors: cudaGetLastError().
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/ops.h"

namespace mlk::cuda {

using kernels::AdamStep;
using kernels::AttentionShape;
using kernels::BFloat16;
using kernels::DropoutMask;
using kernels::ImageShape;
using kernels::LinearGradients;
using kernels::LinearLayer;
using kernels::SgdStep;
using kernels::Transpose;

// Whether 16 bytes can be read and written at this address at once.
__host__ __device__ inline bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

void gemm(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
          const float* a, const float* b, float beta, float* c);
// How the inner side of a product is divided among groups of blocks. partials: memory for count * m * n
// numbers, if count is above 1.
struct ProductShares {
  unsigned count = 1;
  float* partials = nullptr;
};

// gemm_fast does the same as gemm. It is faster if a product has enough blocks for all multiprocessors.
// blocks_of_fast_gemm is the number of blocks of gemm_fast for each share.
std::size_t blocks_of_fast_gemm(int m, int n);
void gemm_fast(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n, int k,
               float alpha, const float* a, const float* b, float beta, float* c,
               const ProductShares& shares);

void add_bias(cudaStream_t stream, int rows, int columns, const float* bias, float* x);
void add_bias_relu(cudaStream_t stream, int rows, int columns, const float* bias, float* x);

// How many partial sums an operation needs if it sums up columns. partials: memory for as many numbers.
std::size_t partial_sums(int rows, int columns);
void bias_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* delta,
                   float* bias_gradient);
void bias_relu_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* output,
                        float* delta, float* bias_gradient);

void add_bias_gelu(cudaStream_t stream, int rows, int columns, const float* bias, float* x, float* out);
void bias_gelu_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* x,
                        float* delta, float* bias_gradient);

void layer_norm(cudaStream_t stream, int rows, int columns, const float* x, const float* weight,
                const float* bias, float* out, float* mean, float* scale);
void layer_norm_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* x,
                         const float* weight, const float* mean, const float* scale, const float* delta,
                         float* x_gradient, float* weight_gradient, float* bias_gradient);
std::size_t layer_norm_partial_sums(int rows, int columns);

void embed(cudaStream_t stream, int rows, int length, int columns, const std::int32_t* tokens,
           const float* token_table, const float* position_table, float* out);
void embed_backward(cudaStream_t stream, int rows, int length, int columns, const std::int32_t* tokens,
                    const float* delta, float* token_gradient, float* position_gradient);

void attention(cudaStream_t stream, const AttentionShape& shape, const float* qkv, float* out,
               float* log_sums);
void attention_backward(cudaStream_t stream, const AttentionShape& shape, const float* qkv, const float* out,
                        const float* log_sums, const float* delta, float* qkv_gradient);

// attention_fast does the same as attention, but uses tiles in shared memory. It is only for shapes for which
// have_fast_attention is true. All tensors are aligned to 16 bytes. dots: the result of prepare_backward
// (bfloat16.h). The heads of all sequences lie along y, where a grid has at most 65535 blocks.
constexpr bool have_fast_attention(const AttentionShape& shape) {
  return (shape.head_size == 64 || shape.head_size == 128) &&
         std::int64_t{shape.batch} * shape.heads <= 65535;
}
void attention_fast(cudaStream_t stream, const AttentionShape& shape, const float* qkv, float* out,
                    float* log_sums);
void attention_fast_backward(cudaStream_t stream, const AttentionShape& shape, const float* qkv,
                             const float* log_sums, const float* delta, const float* dots,
                             float* qkv_gradient);

// im2col: rows[pixels, kernel * kernel * channels] = the window around each pixel, with zeros beyond the
// edges. col2im: each number of x = the sum of that number's entries in all windows.
void im2col(cudaStream_t stream, const ImageShape& shape, int kernel, const float* x, float* rows);
void col2im(cudaStream_t stream, const ImageShape& shape, int kernel, const float* rows, float* x);
void max_pool(cudaStream_t stream, const ImageShape& shape, const float* x, float* out);
void max_pool_backward(cudaStream_t stream, const ImageShape& shape, const float* x, const float* delta,
                       float* x_gradient);

void dropout(cudaStream_t stream, std::size_t size, const DropoutMask& mask, const float* x, float* out);

// sums: memory for clip_sums numbers.
inline constexpr std::size_t clip_sums = 1025;
void clip(cudaStream_t stream, std::size_t size, float* gradients, float most, double* sums);

// losses[rows]: the loss of each row. If delta is null, only the losses are computed.
void softmax_cross_entropy(cudaStream_t stream, int rows, int classes, const float* logits,
                           const std::int32_t* labels, float* losses, float* delta);
// correct[rows]: 1 where the largest logit is at the label, otherwise 0.
void mark_correct(cudaStream_t stream, int rows, int classes, const float* logits, const std::int32_t* labels,
                  float* correct);
// *total = the sum of x[size].
void sum(cudaStream_t stream, std::size_t size, const float* x, double* total);
// *mean = the mean of x[size]; 0 if size is 0.
void mean(cudaStream_t stream, std::size_t size, const float* x, float* mean);

void sgd(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* velocity,
         const SgdStep& step, BFloat16* rounded);
void adam(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* mean,
          float* square, const AdamStep& step, BFloat16* rounded);

void scale(cudaStream_t stream, std::size_t size, float factor, const float* x, float* out);
void add_scaled(cudaStream_t stream, std::size_t size, const float* x, float factor, const float* y,
                float* out);

// gather_rows: row i of out[count, columns] = row ids[i] of the table, times factor. gather_labels: out[i]
// = table[ids[i]].
void gather_rows(cudaStream_t stream, int count, const std::uint64_t* ids, int columns,
                 const std::uint8_t* table, float factor, float* out);
void gather_labels(cudaStream_t stream, int count, const std::uint64_t* ids, const std::uint8_t* table,
                   std::int32_t* out);

}  // namespace mlk::cuda
