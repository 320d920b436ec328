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

// A factor as it is stored.
struct Stored {
  Transpose transpose;
  std::size_t rows, columns;

  Stored(Transpose transposed, int of_rows, int of_columns)
      : transpose(transposed),
        rows(static_cast<std::size_t>(transposed == Transpose::yes ? of_columns : of_rows)),
        columns(static_cast<std::size_t>(transposed == Transpose::yes ? of_rows : of_columns)) {}

  CublasLt::Factor factor(const float* numbers) const {
    return {transpose, CUDA_R_32F, numbers, static_cast<std::int64_t>(columns)};
  }
  CublasLt::Factor factor(const BFloat16* numbers) const {
    return {transpose, CUDA_R_16BF, numbers, static_cast<std::int64_t>(padded(columns))};
  }
};

bool are_aligned(std::initializer_list<const float*> tensors) {
  return std::ranges::all_of(tensors, [](const float* tensor) { return is_aligned(tensor); });
}

}  // namespace

std::string Products::use_cublaslt() {
  cublaslt_ = CublasLt::open(precision_ == kernels::Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                    : CUBLAS_COMPUTE_32F);
  return cublaslt_ ? cublaslt_->version() : "";
}

// As many as there are multiprocessors for, and none for less than 256 of the inner side.
cudaError_t Products::share(int m, int n, int k, ProductShares& shares) {
  const std::size_t blocks = std::max<std::size_t>(blocks_of_fast_gemm(m, n), 1);
  const std::size_t most = std::min<std::size_t>(static_cast<std::size_t>(k) / 256, 32);
  shares.count = static_cast<unsigned>(
      std::clamp<std::size_t>(most, 1, std::max<std::size_t>(multiprocessors_ / blocks, 1)));
  if (shares.count == 1) return cudaSuccess;
  const cudaError_t error =
      partials_.make_room(shares.count * static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  shares.partials = partials_.numbers();
  return error;
}

cudaError_t Products::gemm(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n,
                           int k, float alpha, const float* a, const float* b, float beta, float* c) {
  const Stored of_a(transpose_a, m, k), of_b(transpose_b, k, n);
  if (precision_ != kernels::Precision::bfloat16) {
    if (cublaslt_ && cublaslt_->gemm(stream, m, n, k, alpha, of_a.factor(a), of_b.factor(b), beta, c))
      return cudaSuccess;
    ProductShares shares;
    if (const cudaError_t error = share(m, n, k, shares)) return error;
    if (2 * blocks_of_fast_gemm(m, n) * shares.count > multiprocessors_) {
      gemm_fast(stream, transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c, shares);
    } else {
      cuda::gemm(stream, transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
    }
    return cudaSuccess;
  }
  if (const cudaError_t error = left_.make_room(of_a.rows * padded(of_a.columns))) return error;
  if (const cudaError_t error = right_.make_room(of_b.rows * padded(of_b.columns))) return error;
  const BFloat16 *const left = left_.numbers(), *const right = right_.numbers();
  round_to_bfloat16(stream, of_a.rows, of_a.columns, a, left_.numbers());
  round_to_bfloat16(stream, of_b.rows, of_b.columns, b, right_.numbers());
  if (cublaslt_ && cublaslt_->gemm(stream, m, n, k, alpha, of_a.factor(left), of_b.factor(right), beta, c))
    return cudaSuccess;
  ProductShares shares;
  if (const cudaError_t error = share(m, n, k, shares)) return error;
  gemm_bfloat16(stream, transpose_a, transpose_b, m, n, k, alpha, left, right, beta, c, shares);
  return cudaSuccess;
}

cudaError_t Products::attention(cudaStream_t stream, const AttentionShape& shape, const float* qkv,
                                float* out, float* log_sums) {
  if (!have_fast_attention(shape) || !are_aligned({qkv, out})) {
    cuda::attention(stream, shape, qkv, out, log_sums);
  } else if (precision_ != kernels::Precision::bfloat16) {
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
  if (!have_fast_attention(shape) || !are_aligned({qkv, out, delta, qkv_gradient})) {
    cuda::attention_backward(stream, shape, qkv, out, log_sums, delta, qkv_gradient);
    return cudaSuccess;
  }
  if (const cudaError_t error = dots_.make_room(vectors(shape))) return error;
  if (precision_ != kernels::Precision::bfloat16) {
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
