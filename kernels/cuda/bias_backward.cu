// Sums of columns. A block has 32 columns: in each of its rows of threads, a thread adds up every eighth row
// of the matrix, and then the first row of threads adds up what the others have. Reads are coalesced, and the
// order of additions is always the same.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

constexpr unsigned columns_of_block = 32, rows_of_threads = 8;

// With `output`, the result of add_bias_relu, delta becomes 0 first where that is 0.
__global__ void column_sums_kernel(int rows, int columns, const float* output, float* delta, float* sums) {
  float* const partial = shared_memory<float>();  // [rows_of_threads][columns_of_block]
  const unsigned column = blockIdx.x * columns_of_block + threadIdx.x;
  float sum = 0;
  if (column < static_cast<unsigned>(columns)) {
    for (unsigned row = threadIdx.y; row < static_cast<unsigned>(rows); row += rows_of_threads) {
      const std::size_t at = std::size_t{row} * static_cast<unsigned>(columns) + column;
      if (output != nullptr && !(output[at] > 0)) delta[at] = 0;
      sum += delta[at];
    }
  }
  partial[threadIdx.y * columns_of_block + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= static_cast<unsigned>(columns)) return;
  for (unsigned i = 1; i < rows_of_threads; ++i) sum += partial[i * columns_of_block + threadIdx.x];
  sums[column] = sum;
}

}  // namespace

void bias_relu_backward(cudaStream_t stream, int rows, int columns, const float* output, float* delta,
                        float* bias_gradient) {
  const Grid grid{divide_up(static_cast<std::size_t>(columns), columns_of_block),
                  dim3(columns_of_block, rows_of_threads),
                  columns_of_block * rows_of_threads * sizeof(float)};
  launch(grid, stream, column_sums_kernel, rows, columns, output, delta, bias_gradient);
}

void bias_backward(cudaStream_t stream, int rows, int columns, const float* delta, float* bias_gradient) {
  bias_relu_backward(stream, rows, columns, nullptr, const_cast<float*>(delta),
                     bias_gradient);  // reads delta
}

}  // namespace mlk::cuda
