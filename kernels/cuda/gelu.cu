// GELU in the form of GPT-2 (Hendrycks & Gimpel 2016), and its derivative.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

constexpr float root_2_over_pi = 0.7978845608028654f, cubic = 0.044715f;

__device__ float tanh_of(float x) { return tanhf(root_2_over_pi * (x + cubic * x * x * x)); }

__global__ void add_bias_gelu_kernel(std::size_t size, int columns, const float* bias, float* x, float* out) {
  for_each(size, [=](std::size_t i) {
    const float value = x[i] + bias[i % static_cast<std::size_t>(columns)];
    x[i] = value;
    out[i] = value / 2 * (1 + tanh_of(value));
  });
}

// Where tanh has reached its end the slope of x^3 may be infinite, and nothing changes.
__global__ void gelu_backward_kernel(std::size_t size, const float* x, float* delta) {
  for_each(size, [=](std::size_t i) {
    const float value = x[i], t = tanh_of(value), inner = root_2_over_pi * (1 + 3 * cubic * value * value);
    delta[i] *= (1 + t) / 2 + (t * t == 1 ? 0 : value / 2 * (1 - t * t) * inner);
  });
}

}  // namespace

void add_bias_gelu(cudaStream_t stream, int rows, int columns, const float* bias, float* x, float* out) {
  const std::size_t size = area(rows, columns);
  launch(grid_for(size), stream, add_bias_gelu_kernel, size, columns, bias, x, out);
}

void bias_gelu_backward(cudaStream_t stream, int rows, int columns, const float* x, float* delta,
                        float* bias_gradient) {
  const std::size_t size = area(rows, columns);
  launch(grid_for(size), stream, gelu_backward_kernel, size, x, delta);
  bias_backward(stream, rows, columns, delta, bias_gradient);
}

}  // namespace mlk::cuda
