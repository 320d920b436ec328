// Sums of the columns of matrices, in an order that depends on the shape alone. A block has 128 columns and a
// share of the rows: each of its 8 warps adds up every eighth row, and then one thread for each column adds
// up the sums of the warps. If the rows are cut into shares, the sums of each share go to `partials`, and a
// second kernel adds up the partial sums.
#pragma once

#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {

inline constexpr unsigned columns_of_block = 128, warps_of_columns = 8, columns_of_lane = 4;

// The number of shares into which the rows are cut. A few hundred blocks are enough for all multiprocessors.
// A share has at least 64 rows, or all rows.
constexpr unsigned shares_of_rows(int rows, int columns) {
  const unsigned blocks = divide_up(static_cast<std::size_t>(columns), columns_of_block);
  const unsigned wanted = blocks == 0 ? 1 : divide_up(256, blocks);
  const unsigned most = rows < 64 ? 1 : static_cast<unsigned>(rows) / 64;
  return wanted < most ? wanted : most;
}

inline Grid grid_of_columns(int columns, unsigned shares) {
  return {dim3(divide_up(static_cast<std::size_t>(columns), columns_of_block), shares),
          dim3(warp_threads, warps_of_columns), columns_of_block * warps_of_columns * sizeof(float)};
}

// Calls transform(place, numbers) on four numbers of the matrix from `place` on, or on one number, and then
// adds the numbers. If transform changes numbers, transform also stores them. `wide`: rows are aligned to 16
// bytes.
template <typename Transform>
__global__ void column_sums_kernel(unsigned rows, unsigned columns, bool wide, const float* x,
                                   Transform transform, float* sums) {
  auto* const partial = shared_memory<float>();  // [warps_of_columns][columns_of_block]
  const unsigned column = blockIdx.x * columns_of_block + threadIdx.x * columns_of_lane;
  const unsigned begin = static_cast<unsigned>(std::size_t{rows} * blockIdx.y / gridDim.y);
  const unsigned end = static_cast<unsigned>(std::size_t{rows} * (blockIdx.y + 1) / gridDim.y);
  float own[columns_of_lane] = {};
  for (unsigned row = begin + threadIdx.y; row < end; row += warps_of_columns) {
    const std::size_t place = std::size_t{row} * columns + column;
    if (wide && column < columns) {
      auto numbers = load<4>(x + place);
      transform(place, numbers);
      for (unsigned j = 0; j < columns_of_lane; ++j) own[j] += numbers.of[j];
      continue;
    }
    for (unsigned j = 0; j < columns_of_lane; ++j) {
      if (column + j >= columns) continue;
      auto numbers = load<1>(x + place + j);
      transform(place + j, numbers);
      own[j] += numbers.of[0];
    }
  }
  for (unsigned j = 0; j < columns_of_lane; ++j)
    partial[threadIdx.y * columns_of_block + threadIdx.x * columns_of_lane + j] = own[j];
  __syncthreads();
  const unsigned thread = threadIdx.y * warp_threads + threadIdx.x;
  const unsigned of_thread = blockIdx.x * columns_of_block + thread;
  if (thread >= columns_of_block || of_thread >= columns) return;
  float sum = 0;
  for (unsigned i = 0; i < warps_of_columns; ++i) sum += partial[i * columns_of_block + thread];
  sums[std::size_t{blockIdx.y} * columns + of_thread] = sum;
}

// sums[columns] = the sums of partials[shares, columns].
void add_partials(cudaStream_t stream, unsigned shares, int columns, const float* partials, float* sums);

// sums[columns] = the column sums of the transformed x[rows, columns]. partials: memory for
// partial_sums(rows, columns) numbers.
template <typename Transform>
void sum_columns(cudaStream_t stream, int rows, int columns, bool wide, const float* x, Transform transform,
                 float* sums, float* partials) {
  const unsigned shares = shares_of_rows(rows, columns);
  launch(grid_of_columns(columns, shares), stream, column_sums_kernel<Transform>, static_cast<unsigned>(rows),
         static_cast<unsigned>(columns), wide, x, transform, shares > 1 ? partials : sums);
  if (shares > 1) add_partials(stream, shares, columns, partials, sums);
}

}  // namespace mlk::cuda
