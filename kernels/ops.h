// The operations of the models: one contract, implemented for each kind of device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

#include "kernels/buffer.h"
#include "kernels/optimizer_steps.h"

namespace mlk::kernels {

enum class Transpose { no, yes };

// A device cannot be used, or has failed. what() is a sentence for the user.
struct DeviceFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The type to which gemm rounds its two inputs. Everything else, including its sums and its result, is
// float32.
enum class Precision { float32, bfloat16 };

// All matrices are float32, row-major and dense. They lie in buffers of the same device; on CPUs any memory
// will do. Sizes may be 0. Unless said otherwise no output may overlap an input. An object is for one thread
// at a time. allocate and gemm may throw std::bad_alloc. Operations of a device may only queue work: what
// fails there is thrown later, as DeviceFailure, by an operation that returns a number, read(), write() or
// allocate(). Nothing else throws.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::string_view name() const = 0;

  // A buffer of zeros. It may outlive this object.
  template <typename Number>
  Buffer<Number> allocate(std::size_t size) {
    return {allocate_bytes(size * sizeof(Number)), size};
  }

  // The memory of the host that belongs to a tensor of a buffer, or to a part of one. On CPUs it is the
  // tensor itself, so that the next two copy nothing.
  virtual std::span<float> place(std::span<float> tensor) = 0;
  // Copies a tensor to its place, and returns that.
  virtual std::span<const float> read(std::span<const float> tensor) = 0;
  // Copies values, from its place or from elsewhere, to a tensor of the same length.
  virtual void write(std::span<const float> values, std::span<float> tensor) = 0;

  // c[m,n] = alpha * op(a)[m,k] * op(b)[k,n] + beta * c. With Transpose::yes, a is stored [k,m], b is stored
  // [n,k]. With beta 0, c need not be initialised.
  virtual void gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                    const float* a, const float* b, float beta, float* c) = 0;

  // x[rows, columns] += bias[columns], row by row.
  virtual void add_bias(int rows, int columns, const float* bias, float* x) = 0;

  // x = max(0, x + bias), the output of a hidden layer.
  virtual void add_bias_relu(int rows, int columns, const float* bias, float* x) = 0;

  // bias_gradient[columns] = the sum of the rows of delta[rows, columns].
  virtual void bias_backward(int rows, int columns, const float* delta, float* bias_gradient) = 0;

  // The backward pass of add_bias_relu in one pass: delta becomes 0 where `output`, its result, is 0. Then as
  // bias_backward.
  virtual void bias_relu_backward(int rows, int columns, const float* output, float* delta,
                                  float* bias_gradient) = 0;

  // The mean loss over the rows of logits[rows, classes] against labels[rows], each in [0, classes). NaN
  // logits give a NaN loss.
  virtual float softmax_cross_entropy(int rows, int classes, const float* logits,
                                      const std::int32_t* labels) = 0;

  // The same, and delta[rows, classes] = the gradient of that mean by the logits. delta may be logits itself.
  virtual float softmax_cross_entropy_backward(int rows, int classes, const float* logits,
                                               const std::int32_t* labels, float* delta) = 0;

  // How many rows have their largest logit (the first of equals) at their label.
  virtual std::int64_t count_correct(int rows, int classes, const float* logits,
                                     const std::int32_t* labels) = 0;

  // One update of the parameters and of the state that the rule keeps for each, see optimizer_steps.h. All
  // spans have the same length.
  virtual void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> velocity,
                   const SgdStep& step) = 0;
  virtual void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
                    std::span<float> square, const AdamStep& step) = 0;

  // out = factor * x. With factor 0, x need not be initialised. The spans have the same length, and out may
  // be x.
  virtual void scale(float factor, std::span<const float> x, std::span<float> out) = 0;

  // out = x + factor * y. The spans have the same length, and out may be x or y.
  virtual void add_scaled(std::span<const float> x, float factor, std::span<const float> y,
                          std::span<float> out) = 0;

  // A batch of samples from a table of them: row i of out[ids.size(), columns] is row ids[i] of
  // table[, columns], times scale.
  virtual void gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table,
                           float scale, float* out) = 0;
  // out[i] = table[ids[i]].
  virtual void gather_labels(std::span<const std::uint64_t> ids, const std::uint8_t* table,
                             std::int32_t* out) = 0;

 protected:
  virtual Memory allocate_bytes(std::size_t bytes) = 0;  // zeros
};

}  // namespace mlk::kernels
