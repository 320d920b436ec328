// Layer normalisation (Ba, Kiros & Hinton 2016): one block for each row, and for the gradients of its weights
// one for every 32 columns, as in bias_backward.cu.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"

namespace mlk::cuda {
namespace {

constexpr unsigned threads_of_row = 128, columns_of_block = 32, rows_of_threads = 8;
constexpr float epsilon = 1e-5f;

__global__ void layer_norm_kernel(int columns, const float* x, const float* weight, const float* bias,
                                  float* out, float* mean, float* scale) {
  float* const shared = shared_memory<float>();
  const unsigned width = static_cast<unsigned>(columns);
  const std::size_t first = std::size_t{blockIdx.x} * width;
  float sum = 0, squares = 0;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) sum += x[first + i];
  const float middle = reduce_block(sum, 0.0f, Sum(), shared) / static_cast<float>(columns);
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
    const float apart = x[first + i] - middle;
    squares += apart * apart;
  }
  const float variance = reduce_block(squares, 0.0f, Sum(), shared) / static_cast<float>(columns);
  const float reciprocal = 1 / sqrtf(variance + epsilon);
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
    out[first + i] = (x[first + i] - middle) * reciprocal * weight[i] + bias[i];
  if (threadIdx.x != 0) return;
  mean[blockIdx.x] = middle;
  scale[blockIdx.x] = reciprocal;
}

// With n = (x - mean) * scale and g = delta * weight, the gradient by x is (g - mean(g) - n * mean(g * n)) *
// scale, where the means are over the row.
__global__ void by_input_kernel(int columns, const float* x, const float* weight, const float* mean,
                                const float* scale, const float* delta, float* x_gradient) {
  float* const shared = shared_memory<float>();
  const unsigned width = static_cast<unsigned>(columns);
  const std::size_t first = std::size_t{blockIdx.x} * width;
  const float middle = mean[blockIdx.x], reciprocal = scale[blockIdx.x];
  float sum = 0, product = 0;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
    const float g = delta[first + i] * weight[i];
    sum += g;
    product += g * (x[first + i] - middle) * reciprocal;
  }
  sum = reduce_block(sum, 0.0f, Sum(), shared) / static_cast<float>(columns);
  product = reduce_block(product, 0.0f, Sum(), shared) / static_cast<float>(columns);
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
    const float normal = (x[first + i] - middle) * reciprocal;
    x_gradient[first + i] += (delta[first + i] * weight[i] - sum - normal * product) * reciprocal;
  }
}

__global__ void by_weight_kernel(int rows, int columns, const float* x, const float* mean, const float* scale,
                                 const float* delta, float* weight_gradient) {
  float* const partial = shared_memory<float>();  // [rows_of_threads][columns_of_block]
  const unsigned column = blockIdx.x * columns_of_block + threadIdx.x;
  float sum = 0;
  if (column < static_cast<unsigned>(columns)) {
    for (unsigned row = threadIdx.y; row < static_cast<unsigned>(rows); row += rows_of_threads) {
      const std::size_t at = std::size_t{row} * static_cast<unsigned>(columns) + column;
      sum += delta[at] * (x[at] - mean[row]) * scale[row];
    }
  }
  partial[threadIdx.y * columns_of_block + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= static_cast<unsigned>(columns)) return;
  for (unsigned i = 1; i < rows_of_threads; ++i) sum += partial[i * columns_of_block + threadIdx.x];
  weight_gradient[column] = sum;
}

Grid one_block_a_row(int rows) {
  return {static_cast<unsigned>(rows), threads_of_row, (warp_threads + 1) * sizeof(float)};
}

}  // namespace

void layer_norm(cudaStream_t stream, int rows, int columns, const float* x, const float* weight,
                const float* bias, float* out, float* mean, float* scale) {
  launch(one_block_a_row(rows), stream, layer_norm_kernel, columns, x, weight, bias, out, mean, scale);
}

void layer_norm_backward(cudaStream_t stream, int rows, int columns, const float* x, const float* weight,
                         const float* mean, const float* scale, const float* delta, float* x_gradient,
                         float* weight_gradient, float* bias_gradient) {
  launch(one_block_a_row(rows), stream, by_input_kernel, columns, x, weight, mean, scale, delta, x_gradient);
  bias_backward(stream, rows, columns, delta, bias_gradient);
  const Grid grid{divide_up(static_cast<std::size_t>(columns), columns_of_block),
                  dim3(columns_of_block, rows_of_threads),
                  columns_of_block * rows_of_threads * sizeof(float)};
  launch(grid, stream, by_weight_kernel, rows, columns, x, mean, scale, delta, weight_gradient);
}

}  // namespace mlk::cuda
