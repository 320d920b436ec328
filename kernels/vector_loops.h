// The elementwise loops of a training step, each compiled for several instruction sets and chosen at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"
#include "kernels/optimizer_steps.h"

namespace mlk::kernels {

// Pointers to functions and not GCC's target_clones: those are chosen by the loader, before a sanitizer is
// up, and then crash in it. The results are the same bits for every instruction set.
struct VectorLoops {
  const char* name;  // the instruction set

  // The contracts of Ops (ops.h), of the same names.
  void (*add_bias)(int rows, int columns, const float* bias, float* x);
  void (*add_bias_relu)(int rows, int columns, const float* bias, float* x);
  void (*bias_backward)(int rows, int columns, const float* delta, float* bias_gradient);
  void (*bias_relu_backward)(int rows, int columns, const float* output, float* delta, float* bias_gradient);
  void (*sgd)(std::size_t size, float* parameters, const float* gradients, float* velocity,
              const SgdStep& step);
  void (*adam)(std::size_t size, float* parameters, const float* gradients, float* mean, float* square,
               const AdamStep& step);
  void (*accumulate)(std::size_t size, const float* x, float* sum);

  // x[i] = e^x[i] for x[i] of at most 0, to a few units in the last place; below -80 as at -80, so that no
  // result is a number whose exponent is exhausted and with which processors are slow.
  void (*exponentials)(std::size_t size, float* x);

  // out[i] = in[i], rounded to bfloat16: as one, and as the float of the same value.
  void (*round_to_bfloat16)(std::size_t size, const float* in, BFloat16* out);
  void (*round_like_bfloat16)(std::size_t size, const float* in, float* out);

  // out[i] = in[i] * scale.
  void (*scale_bytes)(std::size_t size, const std::uint8_t* in, float scale, float* out);
};

// Those that this processor can run, the best first; never empty.
std::span<const VectorLoops> vector_loops();

}  // namespace mlk::kernels
