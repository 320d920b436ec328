// GELU in the form of GPT-2 (Hendrycks & Gimpel 2016), and its derivative.
#include "kernels/cuda/base/column_sums.h"

namespace mlk::cuda {
namespace {

constexpr float root_2_over_pi = 0.7978845608028654f, cubic = 0.044715f;

__device__ float tanh_of(float x) { return tanhf(root_2_over_pi * (x + cubic * x * x * x)); }

__global__ void add_bias_gelu_kernel(std::size_t size, std::size_t head, int columns, const float* bias,
                                     float* x, float* out) {
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto values = load<width>(x + i), results = values;
    const auto biases = load<width>(bias + i % static_cast<std::size_t>(columns));
    for (unsigned j = 0; j < width; ++j) {
      const float value = values.of[j] + biases.of[j];
      values.of[j] = value;
      results.of[j] = value / 2 * (1 + tanh_of(value));
    }
    store(x + i, values);
    store(out + i, results);
  });
}

// Where tanh is saturated, the slope of x^3 may be infinite, so the term with this slope is left
// out.
struct OfGelu {
  const float* x;
  float* delta;

  template <unsigned width>
  __device__ void operator()(std::size_t place, Numbers<width>& numbers) const {
    const auto values = load<width>(x + place);
    for (unsigned j = 0; j < width; ++j) {
      const float value = values.of[j], t = tanh_of(value);
      const float inner = root_2_over_pi * (1 + 3 * cubic * value * value);
      numbers.of[j] *= (1 + t) / 2 + (t * t == 1 ? 0 : value / 2 * (1 - t * t) * inner);
    }
    store(delta + place, numbers);
  }
};

}  // namespace

void add_bias_gelu(cudaStream_t stream, int rows, int columns, const float* bias, float* x, float* out) {
  const std::size_t size = area(rows, columns);
  launch(wide_grid_for(size), stream, add_bias_gelu_kernel, size,
         are_aligned_rows(columns, bias, x, out) ? 0 : size, columns, bias, x, out);
}

void bias_gelu_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* x,
                        float* delta, float* bias_gradient) {
  sum_columns(stream, rows, columns, are_aligned_rows(columns, delta, x), delta, OfGelu{x, delta},
              bias_gradient, partials);
}

}  // namespace mlk::cuda
