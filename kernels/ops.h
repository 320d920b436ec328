// The operations of the models: one contract, implemented for each kind of device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <tuple>

#include "kernels/buffer.h"
#include "kernels/dropout.h"
#include "kernels/optimizer_steps.h"
#include "kernels/shapes.h"

namespace mlk::kernels {

class Collectives;

// A device cannot be used, or has failed. what() is a sentence for the user.
struct DeviceFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a device reports about itself, as far as the values are known.
struct DeviceUsage {
  std::optional<double> utilisation;   // share of the recent time in which it computed
  std::optional<double> memory_bytes;  // in use, by all processes
  std::optional<double> watts;
};

// The type to which gemm rounds its two inputs. Other products, such as attention, may also round their
// inputs to this type. Everything else, including the sums and the results of products, is float32. tf32 has
// the range of float32 and the 10 bits of float16's fraction; a device that cannot multiply tf32 computes
// with float32.
enum class Precision { float32, bfloat16, tf32 };

// All matrices are float32, row-major and dense. They lie in buffers of the same device; on CPUs they may lie
// in any memory. Sizes may be 0. An output may overlap an input only where an operation says so. A NaN in an
// input shows in each output that depends on that number. Except for products, the same inputs give the same
// bits with any number of threads. An object is for one thread at a time. allocate(), clip() and the
// operations that multiply matrices may throw std::bad_alloc. Operations of a device may return when their
// work is queued: a failure of that work is thrown later, as DeviceFailure, by an operation that returns a
// number, or by read(), write(), write_tokens(), hold() or allocate(). A function that needs new memory of a
// device throws DeviceFailure if none is left. Nothing else throws.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::string_view name() const = 0;

  // A buffer of zeros. The buffer may outlive this Ops.
  template <typename Number>
  Buffer<Number> allocate(std::size_t size) {
    return {allocate_bytes(size * sizeof(Number)), size};
  }

  // A buffer of zeros in host memory that the device can read and write directly. The buffer may outlive this
  // Ops.
  Buffer<float> allocate_on_host(std::size_t size) {
    return {allocate_host_bytes(size * sizeof(float)), size};
  }

  // The host memory that belongs to a tensor of a buffer, or to a part of a tensor. On CPUs this memory is
  // the tensor itself, so read() and write() copy nothing there.
  virtual std::span<float> place(std::span<float> tensor) = 0;
  // Copies a tensor to its place, and returns the place.
  virtual std::span<const float> read(std::span<const float> tensor) = 0;
  // Begins to copy a tensor to its place. The copy has the values that the tensor has after the operations
  // that are queued so far. The copy runs beside later operations. They must not change the tensor before
  // read() has returned the copy. This read() waits only for the copy.
  virtual void start_read(std::span<const float> /*tensor*/) {}
  // Copies values to a tensor of the same length. The values may lie in the place of the tensor or elsewhere.
  virtual void write(std::span<const float> values, std::span<float> tensor) = 0;

  // Copies tokens or labels from any memory of the host to a tensor of the same length.
  virtual void write_tokens(std::span<const std::int32_t> values, std::span<std::int32_t> tensor) = 0;

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

  // The backward pass of add_bias_relu: delta becomes 0 where `output`, the result of add_bias_relu, is 0.
  // Then does the same as bias_backward.
  virtual void bias_relu_backward(int rows, int columns, const float* output, float* delta,
                                  float* bias_gradient) = 0;

  // x += bias, row by row, and out[rows, columns] = GELU(x), in the form of GPT-2 (Hendrycks & Gimpel 2016):
  // GELU(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
  virtual void add_bias_gelu(int rows, int columns, const float* bias, float* x, float* out) = 0;

  // The backward pass of add_bias_gelu. x[rows, columns] includes the bias; delta is multiplied by the
  // derivative at x. Then does the same as bias_backward.
  virtual void bias_gelu_backward(int rows, int columns, const float* x, float* delta,
                                  float* bias_gradient) = 0;

  // The next three functions are layers of networks. They have the same results as the operations above, but
  // a device may compute them in fewer passes over its memory.

  // out[rows, outputs] = x * weight + bias, plus residual[rows, outputs] if that is not null.
  virtual void linear(const LinearLayer& layer, const float* residual, float* out) {
    gemm(Transpose::no, layer.stored, layer.rows, layer.outputs, layer.inputs, 1, layer.x, layer.weight, 0,
         out);
    if (layer.bias) add_bias(layer.rows, layer.outputs, layer.bias, out);
    if (!residual) return;
    const std::size_t size = static_cast<std::size_t>(layer.rows) * static_cast<std::size_t>(layer.outputs);
    add_scaled({residual, size}, 1, {out, size}, {out, size});
  }

  // sums[rows, outputs] = x * weight + bias, and out = GELU(sums). layer.bias is not null.
  virtual void linear_gelu(const LinearLayer& layer, float* sums, float* out) {
    gemm(Transpose::no, layer.stored, layer.rows, layer.outputs, layer.inputs, 1, layer.x, layer.weight, 0,
         sums);
    add_bias_gelu(layer.rows, layer.outputs, layer.bias, sums, out);
  }

  // The backward pass of linear and linear_gelu. delta[rows, outputs] is the gradient by x * weight + bias.
  // The layer is that of the forward pass, with the same numbers.
  virtual void linear_backward(const LinearLayer& layer, const float* delta, const LinearGradients& to) {
    const auto [rows, inputs, outputs] = std::tuple(layer.rows, layer.inputs, layer.outputs);
    const bool transposed = layer.stored == Transpose::yes;
    if (to.bias) bias_backward(rows, outputs, delta, to.bias);
    gemm(Transpose::yes, Transpose::no, transposed ? outputs : inputs, transposed ? inputs : outputs, rows,
         to.factor, transposed ? delta : layer.x, transposed ? layer.x : delta, to.adds ? 1 : 0, to.weight);
    gemm(Transpose::no, transposed ? Transpose::no : Transpose::yes, rows, inputs, outputs, to.factor, delta,
         layer.weight, 0, to.x);
    if (to.sums) bias_gelu_backward(rows, inputs, to.sums, to.x, to.sums_bias);
  }

  // How many numbers LinearLayer::kept needs for a layer with x[rows, inputs].
  virtual std::size_t kept_size(int /*rows*/, int /*inputs*/) const { return 0; }

  // Whether linear layers are faster if a rounded copy of their weights is kept beside the weights.
  virtual bool uses_rounded() const { return false; }
  // Writes a rounded copy of x. Both have the same length.
  virtual void round(std::span<const float> /*x*/, BFloat16* /*rounded*/) {}

  // How many floats a large result of a model, such as the logits, may have. A model computes a larger result
  // in parts, to save memory.
  virtual std::size_t most_at_once() const { return std::size_t{1} << 24; }

  // Layer normalisation (Ba, Kiros & Hinton 2016): each row of x[rows, columns] is normalised to mean 0 and
  // variance 1, then out = normalised row * weight[columns] + bias[columns]. mean[rows] and scale[rows],
  // which is 1 / sqrt(variance + 1e-5), are kept for the backward pass.
  virtual void layer_norm(int rows, int columns, const float* x, const float* weight, const float* bias,
                          float* out, float* mean, float* scale) = 0;

  // The backward pass of layer_norm. delta[rows, columns] is the gradient by `out`. The gradient by x is
  // added to x_gradient[rows, columns], which holds the gradient of the residual connection. weight_gradient
  // and bias_gradient are overwritten.
  virtual void layer_norm_backward(int rows, int columns, const float* x, const float* weight,
                                   const float* mean, const float* scale, const float* delta,
                                   float* x_gradient, float* weight_gradient, float* bias_gradient) = 0;

  // Turns sequences of tokens, one after the other, into vectors: row i of out[rows, columns] is row
  // tokens[i] of token_table plus row i % length of position_table. rows is a multiple of `length`, which is
  // at least 1.
  virtual void embed(int rows, int length, int columns, const std::int32_t* tokens, const float* token_table,
                     const float* position_table, float* out) = 0;

  // The backward pass of embed: adds each row of delta[rows, columns] to the row of token_gradient that
  // belongs to its token, in the order of the rows. position_gradient[length, columns] is overwritten by the
  // sum of delta over the sequences.
  virtual void embed_backward(int rows, int length, int columns, const std::int32_t* tokens,
                              const float* delta, float* token_gradient, float* position_gradient) = 0;

  // Causal self-attention (Vaswani et al. 2017). qkv[batch, length, 3, heads, head_size] has the queries,
  // keys and values, in GPT-2's order. Each head of a position becomes the mean of the values up to that
  // position, with the weights softmax(query . key / sqrt(head_size)): out[batch, length, heads, head_size].
  // Instead of the weights, log_sums[batch, heads, length] is kept for the backward pass (Dao et al. 2022):
  // the logarithm of the sum of the exponentials of the scaled products. The products may round their inputs
  // as gemm does. A NaN may spread to all positions of its sequence.
  virtual void attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sums) = 0;

  // The backward pass of attention. delta is the gradient by out; qkv_gradient, of the size of qkv, is
  // overwritten.
  virtual void attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                                  const float* log_sums, const float* delta, float* qkv_gradient) = 0;

  // The window of a pixel has the kernel x kernel pixels of x around it, with zeros beyond the edges. kernel
  // is odd. Element o of a pixel of out[batch, height, width, outputs] is the dot product of the pixel's
  // window with weight[o]; weight is [outputs, kernel, kernel, channels]. The products may round their inputs
  // as gemm does.
  virtual void convolve(const ImageShape& shape, int outputs, int kernel, const float* x, const float* weight,
                        float* out) = 0;

  // The backward pass of convolve. delta is the gradient by out. Overwrites weight_gradient. Also overwrites
  // x_gradient, unless this is null.
  virtual void convolve_backward(const ImageShape& shape, int outputs, int kernel, const float* x,
                                 const float* weight, const float* delta, float* x_gradient,
                                 float* weight_gradient) = 0;

  // The largest number of each channel in each square of 2 x 2 pixels: out[batch, height / 2, width / 2,
  // channels]. A row or column that is left over is ignored.
  virtual void max_pool(const ImageShape& shape, const float* x, float* out) = 0;

  // The backward pass of max_pool. In each square, delta goes to the first of the largest numbers, counted
  // row by row. The rest of x_gradient, which has the size of x, becomes 0.
  virtual void max_pool_backward(const ImageShape& shape, const float* x, const float* delta,
                                 float* x_gradient) = 0;

  // Dropout (Srivastava et al. 2014): out[i] = mask.factor() * x[i], or 0 where the mask drops the number,
  // even a NaN. The backward pass is the same operation on the gradients. The spans have the same
  // length, and out may be x.
  virtual void dropout(const DropoutMask& mask, std::span<const float> x, std::span<float> out) = 0;

  // The mean loss over the rows of logits[rows, classes] against labels[rows], each in [0, classes). NaN
  // logits give a NaN loss.
  virtual float softmax_cross_entropy(int rows, int classes, const float* logits,
                                      const std::int32_t* labels) = 0;

  // Computes the same loss as softmax_cross_entropy, but stores it in *loss, a number of a buffer, so that
  // the host does not wait. Also computes delta[rows, classes] = the gradient of that mean by the logits.
  // delta may be logits itself.
  virtual void softmax_cross_entropy_backward(int rows, int classes, const float* logits,
                                              const std::int32_t* labels, float* delta, float* loss) = 0;

  // How many rows have their largest logit (the first of equals) at their label.
  virtual std::int64_t count_correct(int rows, int classes, const float* logits,
                                     const std::int32_t* labels) = 0;

  // One update of the parameters and of the state that the rule keeps for each parameter, see
  // optimizer_steps.h. All spans have the same length. If uses_rounded() is true and `rounded` is not null, a
  // rounded copy of the new parameters is written to `rounded`.
  virtual void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> velocity,
                   const SgdStep& step, BFloat16* rounded = nullptr) = 0;
  virtual void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
                    std::span<float> square, const AdamStep& step, BFloat16* rounded = nullptr) = 0;

  // Scales the gradients so that their norm, the root of the sum of their squares, is at most `most`, which
  // is above 0 (Pascanu, Mikolov & Bengio 2013). If the norm is infinite or NaN, all gradients become NaN.
  virtual void clip(std::span<float> gradients, float most) = 0;

  // out = factor * x. With factor 0, x need not be initialised. The spans have the same length, and out may
  // be x.
  virtual void scale(float factor, std::span<const float> x, std::span<float> out) = 0;

  // out = x + factor * y. The spans have the same length, and out may be x or y.
  virtual void add_scaled(std::span<const float> x, float factor, std::span<const float> y,
                          std::span<float> out) = 0;

  // A table of samples, for gather_rows and gather_labels. The host must not dereference data() of the
  // result. The bytes must not change while the result is in use, and must outlive the result.
  virtual Buffer<std::uint8_t> hold(std::span<const std::uint8_t> bytes) {
    return {Memory(const_cast<std::uint8_t*>(bytes.data()), [](void*) {}), bytes.size()};
  }
  // A batch of samples from a table that hold() has returned: row i of out[ids.size(), columns] is row ids[i]
  // of table[, columns], times scale.
  virtual void gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table,
                           float scale, float* out) = 0;
  // out[i] = table[ids[i]].
  virtual void gather_labels(std::span<const std::uint64_t> ids, const std::uint8_t* table,
                             std::int32_t* out) = 0;

  // The usage of the device now; this call may take some milliseconds.
  virtual DeviceUsage usage() { return {}; }

  // Calls `work`, which may only queue operations of this object: it does not call read(), write() or an
  // operation that returns a number, and only its first call may allocate memory. With the same key, `work`
  // always queues the same operations on the same memory, so that a device may replay them from a recording.
  virtual void repeat(std::uint64_t /*key*/, const std::function<void()>& work) { work(); }

  // Sums of buffers over the devices of several processes (communicator.h); null for a device without such
  // sums. This object owns the result.
  virtual Collectives* collectives() { return nullptr; }

 protected:
  virtual Memory allocate_bytes(std::size_t bytes) = 0;  // zeros
  virtual Memory allocate_host_bytes(std::size_t bytes) { return allocate_bytes(bytes); }
};

}  // namespace mlk::kernels
