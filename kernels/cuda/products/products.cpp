#include "kernels/cuda/products/products.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>

namespace mlk::cuda {
namespace {

// How many queries there are, and how many numbers all queries have together.
std::size_t vectors(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.batch * shape.length) * static_cast<std::size_t>(shape.heads);
}
std::size_t numbers(const AttentionShape& shape) {
  return vectors(shape) * static_cast<std::size_t>(shape.head_size);
}

// Whether products can read the rows of the rounded weight as they are stored.
bool is_usable(const LinearLayer& layer) {
  const int columns = layer.stored == Transpose::yes ? layer.inputs : layer.outputs;
  return layer.rounded && is_aligned(layer.rounded) && columns % 8 == 0;
}

bool are_aligned(std::initializer_list<const float*> tensors) {
  return std::ranges::all_of(tensors, [](const float* tensor) { return is_aligned(tensor); });
}

}  // namespace

// A factor of a product, op(numbers)[rows, columns], and its rounded copy.
struct Products::Factor {
  Transpose transpose;
  int rows, columns;
  const float* numbers;
  const BFloat16* rounded = nullptr;

  std::size_t stored_rows() const {
    return static_cast<std::size_t>(transpose == Transpose::yes ? columns : rows);
  }
  std::size_t stored_columns() const {
    return static_cast<std::size_t>(transpose == Transpose::yes ? rows : columns);
  }
  Factor transposed() const {
    return {transpose == Transpose::yes ? Transpose::no : Transpose::yes, columns, rows, numbers, rounded};
  }
  CublasLt::Factor for_cublaslt() const {
    if (!rounded) return {transpose, CUDA_R_32F, numbers, static_cast<std::int64_t>(stored_columns())};
    return {transpose, CUDA_R_16BF, rounded, static_cast<std::int64_t>(padded(stored_columns()))};
  }
};

std::string Products::use_cublaslt() {
  cublaslt_ = CublasLt::open(precision_ == kernels::Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                    : CUBLAS_COMPUTE_32F);
  return cublaslt_ ? cublaslt_->version() : "";
}

// Makes as many shares as the multiprocessors can run at once, but at most 32. If there are several shares,
// each has at least 256 numbers of the inner side.
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

void Products::round(cudaStream_t stream, Factor& factor, BFloat16* to) {
  if (!rounds()) return;
  round_to_bfloat16(stream, factor.stored_rows(), factor.stored_columns(), factor.numbers, to);
  factor.rounded = to;
}

cudaError_t Products::round(cudaStream_t stream, Factor& factor, Scratch<BFloat16>& memory) {
  if (!rounds()) return cudaSuccess;
  const cudaError_t error = memory.make_room(factor.stored_rows() * padded(factor.stored_columns()));
  if (error == cudaSuccess) round(stream, factor, memory.numbers());
  return error;
}

bool Products::by_cublaslt(cudaStream_t stream, const Factor& a, const Factor& b, float alpha, float beta,
                           float* c, const CublasLt::Fused& fused) {
  return cublaslt_ && cublaslt_->gemm(stream, a.rows, b.columns, a.columns, alpha, a.for_cublaslt(),
                                      b.for_cublaslt(), beta, c, fused);
}

cudaError_t Products::multiply(cudaStream_t stream, const Factor& a, const Factor& b, float alpha, float beta,
                               float* c) {
  if (by_cublaslt(stream, a, b, alpha, beta, c, {})) return cudaSuccess;
  const int m = a.rows, n = b.columns, k = a.columns;
  ProductShares shares;
  if (const cudaError_t error = share(m, n, k, shares)) return error;
  if (precision_ == kernels::Precision::bfloat16) {
    gemm_bfloat16(stream, a.transpose, b.transpose, m, n, k, alpha, a.rounded, b.rounded, beta, c, shares);
  } else if (2 * blocks_of_fast_gemm(m, n) * shares.count > multiprocessors_) {
    gemm_fast(stream, a.transpose, b.transpose, m, n, k, alpha, a.numbers, b.numbers, beta, c, shares);
  } else {
    cuda::gemm(stream, a.transpose, b.transpose, m, n, k, alpha, a.numbers, b.numbers, beta, c);
  }
  return cudaSuccess;
}

cudaError_t Products::gemm(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n,
                           int k, float alpha, const float* a, const float* b, float beta, float* c) {
  Factor left{transpose_a, m, k, a}, right{transpose_b, k, n, b};
  if (const cudaError_t error = round(stream, left, left_)) return error;
  if (const cudaError_t error = round(stream, right, right_)) return error;
  return multiply(stream, left, right, alpha, beta, c);
}

std::size_t Products::kept_size(int rows, int inputs) const {
  return rounds() ? static_cast<std::size_t>(rows) * padded(static_cast<std::size_t>(inputs)) : 0;
}

cudaError_t Products::round_weight(cudaStream_t stream, const LinearLayer& layer, Factor& weight,
                                   Scratch<BFloat16>& memory) {
  if (!rounds() || !is_usable(layer)) return round(stream, weight, memory);
  weight.rounded = layer.rounded;
  return cudaSuccess;
}

cudaError_t Products::round_layer(cudaStream_t stream, const LinearLayer& layer, Factor& x, Factor& weight) {
  if (layer.kept) {
    round(stream, x, layer.kept);
  } else if (const cudaError_t error = round(stream, x, left_)) {
    return error;
  }
  return round_weight(stream, layer, weight, right_);
}

cudaError_t Products::linear(cudaStream_t stream, const LinearLayer& layer, const float* residual,
                             float* out) {
  Factor x{Transpose::no, layer.rows, layer.inputs, layer.x};
  Factor weight{layer.stored, layer.inputs, layer.outputs, layer.weight};
  if (const cudaError_t error = round_layer(stream, layer, x, weight)) return error;
  if (layer.bias && by_cublaslt(stream, x, weight, 1, residual ? 1 : 0, out,
                                {CublasLt::Epilogue::add_bias, layer.bias, nullptr, residual}))
    return cudaSuccess;
  const cudaError_t error = multiply(stream, x, weight, 1, 0, out);
  if (layer.bias) add_bias(stream, layer.rows, layer.outputs, layer.bias, out);
  const auto size = static_cast<std::size_t>(layer.rows) * static_cast<std::size_t>(layer.outputs);
  if (residual) add_scaled(stream, size, residual, 1, out, out);
  return error;
}

cudaError_t Products::linear_gelu(cudaStream_t stream, const LinearLayer& layer, float* sums, float* out) {
  Factor x{Transpose::no, layer.rows, layer.inputs, layer.x};
  Factor weight{layer.stored, layer.inputs, layer.outputs, layer.weight};
  if (const cudaError_t error = round_layer(stream, layer, x, weight)) return error;
  if (by_cublaslt(stream, x, weight, 1, 0, out, {CublasLt::Epilogue::add_bias_gelu, layer.bias, sums}))
    return cudaSuccess;
  const cudaError_t error = multiply(stream, x, weight, 1, 0, sums);
  add_bias_gelu(stream, layer.rows, layer.outputs, layer.bias, sums, out);
  return error;
}

// delta is rounded once for both products.
cudaError_t Products::linear_backward(cudaStream_t stream, const LinearLayer& layer, const float* delta,
                                      const LinearGradients& to, float* partials) {
  const auto [rows, inputs, outputs] = std::tuple(layer.rows, layer.inputs, layer.outputs);
  if (to.bias) bias_backward(stream, partials, rows, outputs, delta, to.bias);
  Factor of_delta{Transpose::no, rows, outputs, delta}, x{Transpose::no, rows, inputs, layer.x};
  if (const cudaError_t error = round(stream, of_delta, right_)) return error;
  if (layer.kept && rounds()) {
    x.rounded = layer.kept;
  } else if (const cudaError_t error = round(stream, x, left_)) {
    return error;
  }
  const bool transposed = layer.stored == Transpose::yes;
  const Factor &left = transposed ? of_delta : x, &right = transposed ? x : of_delta;
  if (const cudaError_t error =
          multiply(stream, left.transposed(), right, to.factor, to.adds ? 1 : 0, to.weight))
    return error;
  Factor weight{transposed ? Transpose::no : Transpose::yes, outputs, inputs, layer.weight};
  if (const cudaError_t error = round_weight(stream, layer, weight, left_)) return error;
  if (to.sums && by_cublaslt(stream, of_delta, weight, to.factor, 0, to.x,
                             {CublasLt::Epilogue::gelu_backward, to.sums_bias, to.sums}))
    return cudaSuccess;
  const cudaError_t error = multiply(stream, of_delta, weight, to.factor, 0, to.x);
  if (to.sums) bias_gelu_backward(stream, partials, rows, inputs, to.sums, to.x, to.sums_bias);
  return error;
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
