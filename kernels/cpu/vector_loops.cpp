// One body for each loop, inlined into one function for each instruction set. This file is compiled with -O3,
// so that the compiler uses vectors, and without contraction to fused multiply-add, which only some
// processors have: the bits of a run must not depend on the processor.
#include "kernels/cpu/vector_loops.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/instruction_sets.h"
#include "kernels/cpu/watched.h"

namespace mlk::kernels {
namespace {

namespace body {

MLK_INLINE void add_bias(int rows, int columns, const float* __restrict bias, float* __restrict x) {
  reads(bias, columns);
  for (int row = 0; row < rows; ++row, x += columns) {
    writes(x, columns);
    for (int i = 0; i < columns; ++i) x[i] += bias[i];
  }
}

MLK_INLINE void add_bias_relu(int rows, int columns, const float* __restrict bias, float* __restrict x) {
  reads(bias, columns);
  for (int row = 0; row < rows; ++row, x += columns) {
    writes(x, columns);
    for (int i = 0; i < columns; ++i) {
      const float sum = x[i] + bias[i];
      x[i] = sum < 0 ? 0 : sum;
    }
  }
}

MLK_INLINE void bias_backward(int rows, int columns, int width, const float* __restrict delta,
                              float* __restrict bias_gradient) {
  writes(bias_gradient, width);
  std::fill_n(bias_gradient, width, 0.0f);
  for (int row = 0; row < rows; ++row, delta += columns) {
    reads(delta, width);
    for (int i = 0; i < width; ++i) bias_gradient[i] += delta[i];
  }
}

MLK_INLINE void bias_relu_backward(int rows, int columns, int width, const float* __restrict output,
                                   float* __restrict delta, float* __restrict bias_gradient) {
  writes(bias_gradient, width);
  std::fill_n(bias_gradient, width, 0.0f);
  for (int row = 0; row < rows; ++row, delta += columns, output += columns) {
    reads(output, width);
    writes(delta, width);
    for (int i = 0; i < width; ++i) {
      const float d = output[i] > 0 ? delta[i] : 0;
      delta[i] = d;
      bias_gradient[i] += d;
    }
  }
}

// One loop computes SGD both with and without nesterov, because memory is slower than two more
// multiplications. `step` is a copy, so that the compiler knows that no store changes it.
MLK_INLINE void sgd(std::size_t size, float* __restrict parameters, const float* __restrict gradients,
                    float* __restrict velocity, const SgdStep& given) {
  const SgdStep step = given;
  reads(gradients, size);
  writes(velocity, size);
  writes(parameters, size);
  const float of_gradient = step.nesterov ? 1 : 0, of_velocity = step.nesterov ? step.momentum : 1;
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradients[i] + step.weight_decay * parameters[i];
    const float v = step.momentum * velocity[i] + g;
    velocity[i] = v;
    parameters[i] -= step.lr * (of_gradient * g + of_velocity * v);
  }
}

MLK_INLINE void adam(std::size_t size, float* __restrict parameters, const float* __restrict gradients,
                     float* __restrict mean, float* __restrict square, const AdamStep& given) {
  const AdamStep step = given;
  reads(gradients, size);
  writes(mean, size);
  writes(square, size);
  writes(parameters, size);
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradients[i] + step.l2 * parameters[i];
    const float m = step.beta1 * mean[i] + step.one_minus_beta1 * g;
    const float s = step.beta2 * square[i] + step.one_minus_beta2 * (g * g);
    mean[i] = m;
    square[i] = s;
    parameters[i] -= step.decay * parameters[i] + step.lr * (m / (std::sqrt(s) + step.epsilon));
  }
}

// In `scale` and `add_scaled`, the output may be one of the inputs. ivdep allows this, but __restrict does
// not.
MLK_INLINE void scale(std::size_t size, float factor, const float* x, float* out) {
  if (factor != 0) reads(x, size);
  writes(out, size);
  if (factor == 0) return static_cast<void>(std::fill_n(out, size, 0.0f));
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) out[i] = factor * x[i];
}

MLK_INLINE void add_scaled(std::size_t size, const float* x, float factor, const float* y, float* out) {
  reads(x, size);
  reads(y, size);
  writes(out, size);
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) out[i] = x[i] + factor * y[i];
}

MLK_INLINE void exponentials(std::size_t size, float* __restrict x) {
  writes(x, size);
  for (std::size_t i = 0; i < size; ++i) x[i] = exponential(x[i]);
}

MLK_INLINE void round_to_bfloat16(std::size_t size, const float* __restrict in, BFloat16* __restrict out) {
  reads(in, size);
  writes(out, size);
  for (std::size_t i = 0; i < size; ++i) out[i] = to_bfloat16(in[i]);
}

MLK_INLINE void round_like_bfloat16(std::size_t size, const float* __restrict in, float* __restrict out) {
  reads(in, size);
  writes(out, size);
  for (std::size_t i = 0; i < size; ++i) out[i] = to_bfloat16(in[i]).value();
}

MLK_INLINE void scale_bytes(std::size_t size, const std::uint8_t* __restrict in, float scale,
                            float* __restrict out) {
  reads(in, size);
  writes(out, size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<float>(in[i]) * scale;
}

}  // namespace body

template <template <auto> typename Compiled>
constexpr VectorLoops table(const char* name) {
  return {name,
          Compiled<body::add_bias>::call,
          Compiled<body::add_bias_relu>::call,
          Compiled<body::bias_backward>::call,
          Compiled<body::bias_relu_backward>::call,
          Compiled<body::sgd>::call,
          Compiled<body::adam>::call,
          Compiled<body::scale>::call,
          Compiled<body::add_scaled>::call,
          Compiled<body::exponentials>::call,
          Compiled<body::round_to_bfloat16>::call,
          Compiled<body::round_like_bfloat16>::call,
          Compiled<body::scale_bytes>::call};
}

MLK_COMPILED_LOOP(Portable, MLK_UNWATCHED);
#if MLK_AVX512_AND_AVX2
MLK_COMPILED_LOOP(Avx2, MLK_UNWATCHED MLK_FOR_AVX2);
MLK_COMPILED_LOOP(Avx512, MLK_UNWATCHED MLK_FOR_AVX512);
constexpr VectorLoops tables[] = {table<Avx512>("avx512"), table<Avx2>("avx2"), table<Portable>("portable")};
#else
constexpr VectorLoops tables[] = {table<Portable>("portable")};
#endif

}  // namespace

std::span<const VectorLoops> vector_loops() { return that_run_here<VectorLoops>(tables); }

}  // namespace mlk::kernels
