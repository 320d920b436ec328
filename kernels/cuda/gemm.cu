// The product of matrices where cuBLASLt is not there. A block computes 64 x 64 numbers of c, a thread 4 x 4
// of them, from tiles of a and b in shared memory that are 16 deep. What lies outside of the matrices counts
// as 0.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

constexpr unsigned tile = 64, depth = 16, side = 16, own = tile / side;

struct Matrix {
  const float* values;
  unsigned rows, columns;
  bool transposed;  // stored [columns, rows]

  __device__ float at(unsigned row, unsigned column) const {
    if (row >= rows || column >= columns) return 0;
    return values[transposed ? std::size_t{column} * rows + row : std::size_t{row} * columns + column];
  }
};

__global__ void gemm_kernel(Matrix a, Matrix b, float alpha, float beta, float* c) {
  float* const of_a = shared_memory<float>();  // [depth][tile], of a transposed
  float* const of_b = of_a + depth * tile;     // [depth][tile]
  const unsigned row = blockIdx.y * tile, column = blockIdx.x * tile;
  const unsigned thread = threadIdx.y * side + threadIdx.x;
  float sums[own][own] = {};
  for (unsigned k = 0; k < a.columns; k += depth) {
    // Threads that follow each other read numbers that do.
    for (unsigned i = thread; i < depth * tile; i += side * side) {
      const unsigned inner = a.transposed ? i / tile : i % depth, outer = a.transposed ? i % tile : i / depth;
      of_a[inner * tile + outer] = a.at(row + outer, k + inner);
    }
    for (unsigned i = thread; i < depth * tile; i += side * side) {
      const unsigned inner = b.transposed ? i % depth : i / tile, outer = b.transposed ? i / depth : i % tile;
      of_b[inner * tile + outer] = b.at(k + inner, column + outer);
    }
    __syncthreads();
    for (unsigned inner = 0; inner < depth; ++inner) {
      float left[own], right[own];
      for (unsigned i = 0; i < own; ++i) {
        left[i] = of_a[inner * tile + threadIdx.y * own + i];
        right[i] = of_b[inner * tile + threadIdx.x + i * side];
      }
      for (unsigned i = 0; i < own; ++i) {
        for (unsigned j = 0; j < own; ++j) sums[i][j] += left[i] * right[j];
      }
    }
    __syncthreads();  // before the next tiles are written over these
  }
  for (unsigned i = 0; i < own; ++i) {
    for (unsigned j = 0; j < own; ++j) {
      const unsigned at_row = row + threadIdx.y * own + i, at_column = column + threadIdx.x + j * side;
      if (at_row >= a.rows || at_column >= b.columns) continue;
      float& out = c[std::size_t{at_row} * b.columns + at_column];
      // Not 0 * c: c may hold anything, also NaN.
      out = beta == 0 ? alpha * sums[i][j] : alpha * sums[i][j] + beta * out;
    }
  }
}

}  // namespace

void gemm(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
          const float* a, const float* b, float beta, float* c) {
  const auto rows = static_cast<unsigned>(m), columns = static_cast<unsigned>(n),
             inner = static_cast<unsigned>(k);
  if (rows == 0 || columns == 0) return;
  launch({dim3(divide_up(columns, tile), divide_up(rows, tile)), dim3(side, side),
          2 * depth * tile * sizeof(float)},
         stream, gemm_kernel, Matrix{a, rows, inner, transpose_a == Transpose::yes},
         Matrix{b, inner, columns, transpose_b == Transpose::yes}, alpha, beta, c);
}

}  // namespace mlk::cuda
