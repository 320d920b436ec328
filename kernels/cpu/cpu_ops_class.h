// The class behind make_cpu_ops(), for the files of this folder: products and updates are in cpu_ops.cpp, the
// operations of layers in cpu_transformer.cpp and cpu_images.cpp, losses in cpu_losses.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/layer_loops.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/reference/reference_ops.h"

#ifndef MLK_ONEDNN
#define MLK_ONEDNN 0
#endif

namespace mlk::kernels {

// The smallest number of arithmetic operations in a part. This many operations take much longer than the
// hundred microseconds that a thread may need to wake up.
inline constexpr double least_operations = 16e6;
inline constexpr std::size_t least_floats = 64 * 1024;

class CpuOps final : public ReferenceOps {
 public:
  CpuOps(int threads, Precision precision)
      : precision_(precision),
        pool_(threads),
        loops_(vector_loops().front()),
        layers_(layer_loops().front()),
        packing_(static_cast<std::size_t>(threads)),
        scratch_(static_cast<std::size_t>(threads)) {}

  std::string_view name() const override { return MLK_ONEDNN ? "onednn" : "cpu"; }
  void gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
            const float* b, float beta, float* c) override;

  void add_bias(int rows, int columns, const float* bias, float* x) override {
    by_rows(rows, columns, [&](int row, int count) {
      loops_.add_bias(count, columns, bias, x + std::ptrdiff_t{row} * columns);
    });
  }
  void add_bias_relu(int rows, int columns, const float* bias, float* x) override {
    by_rows(rows, columns, [&](int row, int count) {
      loops_.add_bias_relu(count, columns, bias, x + std::ptrdiff_t{row} * columns);
    });
  }
  // Sums over rows are divided among threads by columns, so that the number of threads does not change the
  // order of the additions.
  void bias_backward(int rows, int columns, const float* delta, float* bias_gradient) override {
    by_rows(columns, rows, [&](int at, int width) {
      loops_.bias_backward(rows, columns, width, delta + at, bias_gradient + at);
    });
  }
  void bias_relu_backward(int rows, int columns, const float* output, float* delta,
                          float* bias_gradient) override {
    by_rows(columns, rows, [&](int at, int width) {
      loops_.bias_relu_backward(rows, columns, width, output + at, delta + at, bias_gradient + at);
    });
  }
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
  void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> velocity,
           const SgdStep& step, BFloat16*) override {
    by_range(parameters.size(), [&](std::size_t at, std::size_t size) {
      loops_.sgd(size, parameters.data() + at, gradients.data() + at, velocity.data() + at, step);
    });
  }
  void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
            std::span<float> square, const AdamStep& step, BFloat16*) override {
    by_range(parameters.size(), [&](std::size_t at, std::size_t size) {
      loops_.adam(size, parameters.data() + at, gradients.data() + at, mean.data() + at, square.data() + at,
                  step);
    });
  }
  void clip(std::span<float> gradients, float most) override;
  void scale(float factor, std::span<const float> x, std::span<float> out) override {
    by_range(out.size(), [&](std::size_t at, std::size_t size) {
      loops_.scale(size, factor, x.data() + at, out.data() + at);
    });
  }
  void add_scaled(std::span<const float> x, float factor, std::span<const float> y,
                  std::span<float> out) override {
    by_range(out.size(), [&](std::size_t at, std::size_t size) {
      loops_.add_scaled(size, x.data() + at, factor, y.data() + at, out.data() + at);
    });
  }
  void gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table, float scale,
                   float* out) override;

 private:
  // Calls work(part, parts) for each part. `most` limits the number of parts.
  template <typename Work>
  void in_parts(double most, Work work) {
    const int parts = std::clamp(static_cast<int>(std::min(most, 1e6)), 1, pool_.threads());
    if (parts == 1) return work(0, 1);
    pool_.run(parts, [&](int part) { work(part, parts); });
  }
  // Calls work(at, size) for ranges that together cover [0, size).
  template <typename Work>
  void by_range(std::size_t size, Work work) {
    in_parts(static_cast<double>(size) / static_cast<double>(least_floats),
             [&](std::size_t part, std::size_t parts) {
               const std::size_t begin = size * part / parts, end = size * (part + 1) / parts;
               work(begin, end - begin);
             });
  }

  // Calls work(at, size) for ranges of rows that together cover [0, rows).
  template <typename Work>
  void by_rows(int rows, int columns, Work work) {
    in_parts(static_cast<double>(rows) * columns / static_cast<double>(least_floats),
             [&](int part, int parts) {
               const auto up_to = [&](int end) { return static_cast<int>(std::int64_t{rows} * end / parts); };
               work(up_to(part), up_to(part + 1) - up_to(part));
             });
  }

  template <typename LossOf>
  double sum_of_losses(int rows, int classes, LossOf loss_of);

  template <typename Number>
  void product(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
               const Number* a, const Number* b, float beta, float* c);

  // gemm in the calling thread, which computes `part` of an operation. lda, ldb, ldc: how many numbers lie
  // between the starts of two adjacent stored rows.
  template <typename Number>
  void multiply_alone(int part, Transpose transpose_a, Transpose transpose_b, int m, int n, int k,
                      float alpha, const Number* a, int lda, const Number* b, int ldb, float beta, float* c,
                      int ldc);

  // Memory for `size` floats. The thread that computes `part` may use it until the next call with this part.
  float* scratch(int part, std::size_t size) {
    std::vector<float>& space = scratch_[static_cast<std::size_t>(part)];
    if (space.size() < size) space.resize(size);
    return space.data();
  }

  const Precision precision_;
  ThreadPool pool_;
  const VectorLoops& loops_;
  const LayerLoops& layers_;
  std::vector<BFloat16> rounded_[2];  // the rounded inputs of a product; the buffers never shrink
  std::vector<float> imitated_[2];
  std::vector<std::vector<float>> packing_;  // one for each part of our own products
  std::vector<std::vector<float>> scratch_;  // one for each part
};

}  // namespace mlk::kernels
