// Ops in plain loops, written for reading: the reference of the tests, the fallback, and the base class of
// faster implementations.
#pragma once

#include <memory>

#include "kernels/bfloat16.h"
#include "kernels/ops.h"

namespace mlk::kernels {

// Ops::gemm. lda, ldb, ldc: how many numbers lie between the starts of two adjacent stored rows. Number:
// float or BFloat16.
template <typename Number>
void reference_gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                    const Number* a, int lda, const Number* b, int ldb, float beta, float* c, int ldc);

class ReferenceOps : public Ops {
 public:
  std::string_view name() const override { return "reference"; }
  std::span<float> place(std::span<float> tensor) override { return tensor; }
  std::span<const float> read(std::span<const float> tensor) override { return tensor; }
  void write(std::span<const float> values, std::span<float> tensor) override;
  void write_tokens(std::span<const std::int32_t> values, std::span<std::int32_t> tensor) override;
  void gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
            const float* b, float beta, float* c) override;
  void add_bias(int rows, int columns, const float* bias, float* x) override;
  void add_bias_relu(int rows, int columns, const float* bias, float* x) override;
  void bias_backward(int rows, int columns, const float* delta, float* bias_gradient) override;
  void bias_relu_backward(int rows, int columns, const float* output, float* delta,
                          float* bias_gradient) override;
  void add_bias_gelu(int rows, int columns, const float* bias, float* x, float* out) override;
  void bias_gelu_backward(int rows, int columns, const float* x, float* delta, float* bias_gradient) override;
  void layer_norm(int rows, int columns, const float* x, const float* weight, const float* bias, float* out,
                  float* mean, float* scale) override;
  void layer_norm_backward(int rows, int columns, const float* x, const float* weight, const float* mean,
                           const float* scale, const float* delta, float* x_gradient, float* weight_gradient,
                           float* bias_gradient) override;
  void embed(int rows, int length, int columns, const std::int32_t* tokens, const float* token_table,
             const float* position_table, float* out) override;
  void embed_backward(int rows, int length, int columns, const std::int32_t* tokens, const float* delta,
                      float* token_gradient, float* position_gradient) override;
  void attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sums) override;
  void attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                          const float* log_sums, const float* delta, float* qkv_gradient) override;
  void convolve(const ImageShape& shape, int outputs, int kernel, const float* x, const float* weight,
                float* out) override;
  void convolve_backward(const ImageShape& shape, int outputs, int kernel, const float* x,
                         const float* weight, const float* delta, float* x_gradient,
                         float* weight_gradient) override;
  void max_pool(const ImageShape& shape, const float* x, float* out) override;
  void max_pool_backward(const ImageShape& shape, const float* x, const float* delta,
                         float* x_gradient) override;
  void dropout(const DropoutMask& mask, std::span<const float> x, std::span<float> out) override;
  float softmax_cross_entropy(int rows, int classes, const float* logits,
                              const std::int32_t* labels) override;
  void softmax_cross_entropy_backward(int rows, int classes, const float* logits, const std::int32_t* labels,
                                      float* delta, float* loss) override;
  std::int64_t count_correct(int rows, int classes, const float* logits, const std::int32_t* labels) override;
  void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> velocity,
           const SgdStep& step, BFloat16*) override;
  void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
            std::span<float> square, const AdamStep& step, BFloat16*) override;
  void clip(std::span<float> gradients, float most) override;
  void scale(float factor, std::span<const float> x, std::span<float> out) override;
  void add_scaled(std::span<const float> x, float factor, std::span<const float> y,
                  std::span<float> out) override;
  void gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table, float scale,
                   float* out) override;
  void gather_labels(std::span<const std::uint64_t> ids, const std::uint8_t* table,
                     std::int32_t* out) override;

 protected:
  Memory allocate_bytes(std::size_t bytes) override;
};

// Plain loops, written for reading: the tests compare the other implementations with this one, and it is
// the fallback.
std::unique_ptr<Ops> make_reference_ops();

}  // namespace mlk::kernels
