// The operations that multiply matrices, with the precision of a device: which kernels compute them, and the
// scratch memory that they need.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/base/bfloat16.h"
#include "kernels/cuda/base/kernels.h"
#include "kernels/cuda/base/scratch.h"
#include "kernels/cuda/products/cublaslt.h"

namespace mlk::cuda {

// All work goes to one stream, so that scratch memory is free again when the next operation begins. The
// functions return errors of scratch memory; cudaGetLastError() returns errors of kernels.
class Products {
 public:
  Products(kernels::Precision precision, int multiprocessors)
      : precision_(precision), multiprocessors_(static_cast<std::size_t>(multiprocessors)) {}

  // From now on cuBLASLt computes products, if the library is on the machine. Returns its version, or an
  // empty text.
  std::string use_cublaslt();

  cudaError_t gemm(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n, int k,
                   float alpha, const float* a, const float* b, float beta, float* c);
  cudaError_t linear(cudaStream_t stream, const LinearLayer& layer, const float* residual, float* out);
  cudaError_t linear_gelu(cudaStream_t stream, const LinearLayer& layer, float* sums, float* out);
  // partials: memory for max(partial_sums(rows, outputs), partial_sums(rows, inputs)) numbers.
  cudaError_t linear_backward(cudaStream_t stream, const LinearLayer& layer, const float* delta,
                              const LinearGradients& to, float* partials);
  std::size_t kept_size(int rows, int inputs) const;
  // Whether factors of products are rounded to bfloat16.
  bool rounds() const { return precision_ == kernels::Precision::bfloat16; }

  cudaError_t attention(cudaStream_t stream, const AttentionShape& shape, const float* qkv, float* out,
                        float* log_sums);
  cudaError_t attention_backward(cudaStream_t stream, const AttentionShape& shape, const float* qkv,
                                 const float* out, const float* log_sums, const float* delta,
                                 float* qkv_gradient);

 private:
  struct Factor;
  // If the precision requires it, the next two functions round a factor and store the result in the given
  // memory.
  void round(cudaStream_t stream, Factor& factor, BFloat16* to);
  cudaError_t round(cudaStream_t stream, Factor& factor, Scratch<BFloat16>& memory);
  // If the precision requires it, round_layer() rounds x and the weight of a layer, and round_weight() only
  // the weight. Both use the rounded copy of the weight if the layer has a usable one.
  cudaError_t round_layer(cudaStream_t stream, const LinearLayer& layer, Factor& x, Factor& weight);
  cudaError_t round_weight(cudaStream_t stream, const LinearLayer& layer, Factor& weight,
                           Scratch<BFloat16>& memory);
  // False: cuBLASLt is missing, or does not compute this product; nothing was queued.
  bool by_cublaslt(cudaStream_t stream, const Factor& a, const Factor& b, float alpha, float beta, float* c,
                   const CublasLt::Fused& fused);
  cudaError_t multiply(cudaStream_t stream, const Factor& a, const Factor& b, float alpha, float beta,
                       float* c);
  // Decides how the inner side of a product is divided among blocks, and reserves memory for the partial
  // sums.
  cudaError_t share(int m, int n, int k, ProductShares& shares);
  cudaError_t round_qkv(cudaStream_t stream, const AttentionShape& shape, const float* qkv);  // to left_

  const kernels::Precision precision_;
  const std::size_t multiprocessors_;
  Scratch<BFloat16> left_, right_;  // rounded inputs
  Scratch<float> partials_;         // of products whose inner side is cut into shares
  Scratch<float> dots_;             // of the backward pass of attention
  std::unique_ptr<CublasLt> cublaslt_;
};

}  // namespace mlk::cuda
