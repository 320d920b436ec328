// The elementwise loops of a training step, each compiled for several instruction sets and chosen at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"
#include "kernels/optimizer_steps.h"

namespace mlk::kernels {

// Pointers to functions are used instead of GCC's target_clones, because the loader selects clones before a
// sanitizer is ready, and the selection then crashes in the sanitizer. The results have the same bits for
// every instruction set.
struct VectorLoops {
  const char* name;  // the instruction set

  // The functions from add_bias to add_scaled have the contracts of the functions of Ops (ops.h) with the
  // same names.
  void (*add_bias)(int rows, int columns, const float* bias, float* x);
  void (*add_bias_relu)(int rows, int columns, const float* bias, float* x);
  // bias_backward and bias_relu_backward handle `width` of the columns: the matrices and the gradient begin
  // at the first of these columns.
  void (*bias_backward)(int rows, int columns, int width, const float* delta, float* bias_gradient);
  void (*bias_relu_backward)(int rows, int columns, int width, const float* output, float* delta,
                             float* bias_gradient);
  void (*sgd)(std::size_t size, float* parameters, const float* gradients, float* velocity,
              const SgdStep& step);
  void (*adam)(std::size_t size, float* parameters, const float* gradients, float* mean, float* square,
               const AdamStep& step);
  void (*scale)(std::size_t size, float factor, const float* x, float* out);
  void (*add_scaled)(std::size_t size, const float* x, float factor, const float* y, float* out);

  // x[i] = exponential(x[i]), see exponential.h.
  void (*exponentials)(std::size_t size, float* x);

  // out[i] = in[i], rounded to bfloat16. round_to_bfloat16 stores a bfloat16, and round_like_bfloat16 a float
  // of the same value.
  void (*round_to_bfloat16)(std::size_t size, const float* in, BFloat16* out);
  void (*round_like_bfloat16)(std::size_t size, const float* in, float* out);

  // out[i] = in[i] * scale.
  void (*scale_bytes)(std::size_t size, const std::uint8_t* in, float scale, float* out);
};

// The loops that this processor can run, the fastest first; never empty.
std::span<const VectorLoops> vector_loops();

}  // namespace mlk::kernels
