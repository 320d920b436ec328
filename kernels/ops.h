// The operations of the models: one contract, implemented for each kind of device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/optimizer_steps.h"

namespace mlk::kernels {

enum class Transpose { no, yes };

// What gemm rounds its two inputs to. Everything else, its sums and its result too, is float32.
enum class Precision { float32, bfloat16 };

// All matrices are float32, row-major and dense. Sizes may be 0. Unless said otherwise no output may overlap
// an input. An object is for one thread at a time. gemm may throw
// std::bad_alloc; nothing else throws.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::string_view name() const = 0;

  // c[m,n] = alpha * op(a)[m,k] * op(b)[k,n] + beta * c. With yes, a is stored [k,m], b is stored [n,k].
  // With beta 0, c need not be initialised.
  virtual void gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                    const float* a, const float* b, float beta, float* c) = 0;

  // x[rows, columns] += bias[columns], row by row.
  virtual void add_bias(int rows, int columns, const float* bias, float* x) = 0;

  // x = max(0, x + bias), the output of a hidden layer.
  virtual void add_bias_relu(int rows, int columns, const float* bias, float* x) = 0;

  // bias_gradient[columns] = the sum of the rows of delta[rows, columns].
  virtual void bias_backward(int rows, int columns, const float* delta, float* bias_gradient) = 0;

  // Backward of add_bias_relu in one pass: delta becomes 0 where output, its result, is 0; then as
  // bias_backward.
  virtual void bias_relu_backward(int rows, int columns, const float* output, float* delta,
                                  float* bias_gradient) = 0;

  // The mean loss over the rows of logits[rows, classes] against labels[rows], each in [0, classes).
  // A logit that is not a number makes the loss one that is not.
  virtual float softmax_cross_entropy(int rows, int classes, const float* logits,
                                      const std::int32_t* labels) = 0;

  // The same, and delta[rows, classes] = the gradient of that mean by the logits. delta may be logits itself.
  virtual float softmax_cross_entropy_backward(int rows, int classes, const float* logits,
                                               const std::int32_t* labels, float* delta) = 0;

  // How many rows have their largest logit (the first of equals) at their label.
  virtual std::int64_t count_correct(int rows, int classes, const float* logits,
                                     const std::int32_t* labels) = 0;

  // One update of parameters and of what the rule keeps of each, see optimizer_steps.h. The spans have one
  // length.
  virtual void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> velocity,
                   const SgdStep& step) = 0;
  virtual void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
                    std::span<float> square, const AdamStep& step) = 0;

  // sum += x. The spans have one length.
  virtual void accumulate(std::span<const float> x, std::span<float> sum) = 0;
};

// Plain loops, written for reading: what the other implementations are held to, and the fall-back.
std::unique_ptr<Ops> make_reference_ops();

// The best for this processor: for matrices our own products or oneDNN's, if that was there at build time
// (cpu_ops.cpp says when which), own vector loops for the rest. threads: how many share an operation that is
// large enough, at least 1. They block between operations (thread_pool.h). With Precision::bfloat16 on a
// processor that does not multiply them, they are imitated: the results are as good, and come no sooner than
// with float32.
std::unique_ptr<Ops> make_cpu_ops(int threads = 1, Precision precision = Precision::float32);

// Whether make_cpu_ops' gemm has bfloat16 products of this processor (AVX512-BF16, AMX) and oneDNN.
bool multiplies_bfloat16();

}  // namespace mlk::kernels
