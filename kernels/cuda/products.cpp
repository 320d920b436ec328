#include "kernels/cuda/products.h"

#include <algorithm>
#include <initializer_list>

namespace mlk::cuda {
namespace {

// Of queries: how many, and their numbers.
std::size_t vectors(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.batch * shape.length) * static_cast<std::size_t>(shape.heads);
}
std::size_t numbers(const AttentionShape& shape) {
  return vectors(shape) * static_cast<std::size_t>(shape.head_size);
}

bool are_aligned(std::initializer_list<const float*> tensors) {
  return std::ranges::all_of(tensors, [](const float* tensor) { return is_aligned(tensor); });
}

}  // namespace

cudaError_t Products::gemm(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n,
                           int k, float alpha, const float* a, const float* b, float beta, float* c) {
  if (precision_ == kernels::Precision::float32) {
    const auto multiply = 2 * blocks_of_fast_gemm(m, n) > multiprocessors_ ? gemm_fast : cuda::gemm;
    multiply(stream, transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
    return cudaSuccess;
  }
  const auto rows_of = [](Transpose transposed, int rows, int columns) {
    return static_cast<std::size_t>(transposed == Transpose::yes ? columns : rows);
  };
  const std::size_t a_rows = rows_of(transpose_a, m, k), a_columns = rows_of(transpose_a, k, m);
  const std::size_t b_rows = rows_of(transpose_b, k, n), b_columns = rows_of(transpose_b, n, k);
  if (const cudaError_t error = left_.make_room(a_rows * padded(a_columns))) return error;
  if (const cudaError_t error = right_.make_room(b_rows * padded(b_columns))) return error;
  round_to_bfloat16(stream, a_rows, a_columns, a, left_.numbers());
  round_to_bfloat16(stream, b_rows, b_columns, b, right_.numbers());
  gemm_bfloat16(stream, transpose_a, transpose_b, m, n, k, alpha, left_.numbers(), right_.numbers(), beta, c);
  return cudaSuccess;
}

cudaError_t Products::attention(cudaStream_t stream, const AttentionShape& shape, const float* qkv,
                                float* out, float* log_sums) {
  if (!have_fast_attention(shape.head_size) || !are_aligned({qkv, out})) {
    cuda::attention(stream, shape, qkv, out, log_sums);
  } else if (precision_ == kernels::Precision::float32) {
    attention_fast(stream, shape, qkv, out, log_sums);
  } else {
    if (const cudaError_t error = round_qkv(stream, shape, qkv)) return error;
    attention_bfloat16(stream, shape, left_.numbers(), out, log_sums);
  }
  return cudaSuccess;
}

cudaError_t Products::round_qkv(cudaStream_t stream, const AttentionShape& shape, const float* qkv) {
  if (const cudaError_t error = left_.make_room(3 * numbers(shape))) return error;
  round_to_bfloat16(stream, 3 * vectors(shape), static_cast<std::size_t>(shape.head_size), qkv,
                    left_.numbers());
  return cudaSuccess;
}

cudaError_t Products::attention_backward(cudaStream_t stream, const AttentionShape& shape, const float* qkv,
                                         const float* out, const float* log_sums, const float* delta,
                                         float* qkv_gradient) {
  if (!have_fast_attention(shape.head_size) || !are_aligned({qkv, out, delta, qkv_gradient})) {
    cuda::attention_backward(stream, shape, qkv, out, log_sums, delta, qkv_gradient);
    return cudaSuccess;
  }
  if (const cudaError_t error = dots_.make_room(vectors(shape))) return error;
  if (precision_ == kernels::Precision::float32) {
    prepare_backward(stream, shape, out, delta, nullptr, dots_.numbers());
    attention_fast_backward(stream, shape, qkv, log_sums, delta, dots_.numbers(), qkv_gradient);
    return cudaSuccess;
  }
  if (const cudaError_t error = round_qkv(stream, shape, qkv)) return error;
  if (const cudaError_t error = right_.make_room(numbers(shape))) return error;
  prepare_backward(stream, shape, out, delta, right_.numbers(), dots_.numbers());
  attention_backward_bfloat16(stream, shape, left_.numbers(), log_sums, right_.numbers(), dots_.numbers(),
                              qkv_gradient);
  return cudaSuccess;
}

}  // namespace mlk::cuda
