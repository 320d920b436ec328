// Biases, sums and multiples.
#include "kernels/cuda/base/elementwise.h"

#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {
namespace {

// With `relu`, the comparison keeps a NaN, so that it shows in the loss.
__global__ void add_bias_kernel(std::size_t size, std::size_t head, int columns, bool relu, const float* bias,
                                float* x) {
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto numbers = load<width>(x + i);
    const auto biases = load<width>(bias + i % static_cast<std::size_t>(columns));
    for (unsigned j = 0; j < width; ++j) {
      const float sum = numbers.of[j] + biases.of[j];
      numbers.of[j] = relu && sum < 0 ? 0 : sum;
    }
    store(x + i, numbers);
  });
}

__global__ void scale_kernel(std::size_t size, std::size_t head, float factor, const float* x, float* out) {
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto numbers = load<width>(x + i);
    // With factor 0, the values of x do not matter: x may hold anything, even NaN.
    for (float& number : numbers.of) number = factor == 0 ? 0 : factor * number;
    store(out + i, numbers);
  });
}

__global__ void add_scaled_kernel(std::size_t size, std::size_t head, const float* x, float factor,
                                  const float* y, float* out) {
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto numbers = load<width>(x + i);
    const auto others = load<width>(y + i);
    for (unsigned j = 0; j < width; ++j) numbers.of[j] += factor * others.of[j];
    store(out + i, numbers);
  });
}

}  // namespace

void add_bias(cudaStream_t stream, int rows, int columns, const float* bias, float* x) {
  const std::size_t size = area(rows, columns);
  launch(wide_grid_for(size), stream, add_bias_kernel, size, are_aligned_rows(columns, bias, x) ? 0 : size,
         columns, false, bias, x);
}

void add_bias_relu(cudaStream_t stream, int rows, int columns, const float* bias, float* x) {
  const std::size_t size = area(rows, columns);
  launch(wide_grid_for(size), stream, add_bias_kernel, size, are_aligned_rows(columns, bias, x) ? 0 : size,
         columns, true, bias, x);
}

void scale(cudaStream_t stream, std::size_t size, float factor, const float* x, float* out) {
  launch(wide_grid_for(size), stream, scale_kernel, size, head_of(size, x, out), factor, x, out);
}

void add_scaled(cudaStream_t stream, std::size_t size, const float* x, float factor, const float* y,
                float* out) {
  launch(wide_grid_for(size), stream, add_scaled_kernel, size, head_of(size, x, y, out), x, factor, y, out);
}

}  // namespace mlk::cuda
