// The gradient of a bias. The backward pass of ReLU is part of the same kernel.
#include "kernels/cuda/base/column_sums.h"

namespace mlk::cuda {
namespace {

struct AsItIs {
  template <unsigned width>
  __device__ void operator()(std::size_t, Numbers<width>&) const {}
};

// delta becomes 0 where `output`, the result of add_bias_relu, is 0.
struct OfRelu {
  const float* output;
  float* delta;

  template <unsigned width>
  __device__ void operator()(std::size_t place, Numbers<width>& numbers) const {
    const auto outputs = load<width>(output + place);
    for (unsigned j = 0; j < width; ++j) numbers.of[j] = outputs.of[j] > 0 ? numbers.of[j] : 0;
    store(delta + place, numbers);
  }
};

}  // namespace

std::size_t partial_sums(int rows, int columns) { return shares_of_rows(rows, columns) * area(1, columns); }

void add_partials(cudaStream_t stream, unsigned shares, int columns, const float* partials, float* sums) {
  launch(grid_of_columns(columns, 1), stream, column_sums_kernel<AsItIs>, shares,
         static_cast<unsigned>(columns), are_aligned_rows(columns, partials), partials, AsItIs{}, sums);
}

void bias_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* delta,
                   float* bias_gradient) {
  sum_columns(stream, rows, columns, are_aligned_rows(columns, delta), delta, AsItIs{}, bias_gradient,
              partials);
}

void bias_relu_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* output,
                        float* delta, float* bias_gradient) {
  sum_columns(stream, rows, columns, are_aligned_rows(columns, delta, output), delta, OfRelu{output, delta},
              bias_gradient, partials);
}

}  // namespace mlk::cuda
