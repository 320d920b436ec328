// Where a product goes: c[rows, columns] = alpha * sums + beta * c.
#pragma once

#include "kernels/cuda/cuda.h"

namespace mlk::cuda {

struct ProductResult {
  float alpha, beta;
  float* c;
  unsigned rows, columns;

  __device__ void put_at(float* out, float sum) const {
    // Not 0 * c: c may hold anything, also NaN.
    *out = beta == 0 ? alpha * sum : alpha * sum + beta * *out;
  }
  // Nothing beyond the edges.
  __device__ void put(unsigned row, unsigned column, float sum) const {
    if (row < rows && column < columns) put_at(c + std::size_t{row} * columns + column, sum);
  }
};

}  // namespace mlk::cuda
