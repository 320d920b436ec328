// The product of matrices in float32, for machines without cuBLASLt. Numbers outside of the matrices count as
// 0.
//
// The tiles of `a` and `b` are in shared memory. The simple version: a block computes 64 x 64 numbers of `c`,
// a thread 4 x 4 of them, from tiles that are 16 deep. The fast version: a block computes 128 x 128 numbers,
// a thread 8 x 8 of them, from tiles that are 8 deep. While one tile of each matrix is multiplied, the next
// three are loaded by asynchronous copies. The fast version reads half as much for each number, but has only
// a quarter as many blocks.
#include "kernels/cuda/base/async_copy.h"
#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"
#include "kernels/cuda/products/gemm_result.h"

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

__global__ void simple_kernel(Matrix a, Matrix b, ProductResult result) {
  float* const of_a = shared_memory<float>();  // [depth][tile]: a tile of a, transposed
  float* const of_b = of_a + depth * tile;     // [depth][tile]: a tile of b
  const Corner corner = corner_of_block(result, tile);
  const unsigned row = corner.row, column = corner.column;
  const unsigned thread = threadIdx.y * side + threadIdx.x;
  float sums[own][own] = {};
  for (unsigned k = 0; k < a.columns; k += depth) {
    // Consecutive threads read consecutive numbers.
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
    __syncthreads();  // before the next tiles overwrite these
  }
  for (unsigned i = 0; i < own; ++i) {
    for (unsigned j = 0; j < own; ++j) {
      result.put(row + threadIdx.y * own + i, column + threadIdx.x + j * side, sums[i][j]);
    }
  }
}

namespace fast {

constexpr unsigned tile = 128, depth = 8, stages = 4, block_threads = 256, own = 8;
// The padding between the rows of a tile puts the numbers that a warp writes at once into different banks.
constexpr unsigned stride = tile + 4, tile_numbers = depth * stride;

// Begins to copy `tile` rows and `depth` columns of a matrix (of its transpose, if `across`) to shared
// memory, as to[depth][stride]. Consecutive threads read consecutive numbers: without `across`, 8 threads
// read 8 numbers of a row, and the next 8 threads read the next row.
template <bool across>
__device__ void bring(const float* values, unsigned rows, unsigned columns, unsigned row, unsigned column,
                      float* to) {
#pragma unroll 2
  for (unsigned i = threadIdx.x; i < tile * depth; i += block_threads) {
    const unsigned inner = across ? i / tile : i % depth, outer = across ? i % tile : i / depth;
    const unsigned at_row = row + outer, at_column = column + inner;
    const bool inside = at_row < rows && at_column < columns;
    const std::size_t at =
        across ? std::size_t{at_column} * rows + at_row : std::size_t{at_row} * columns + at_column;
    copy_async<4>(to + inner * stride + outer, values + (inside ? at : 0), inside ? 4 : 0);
  }
}

// In a tile, a thread has eight rows and eight columns, each as two groups of four adjacent ones. Returns the
// place of the thread's row or column `i` in the tile.
__device__ unsigned place(unsigned thread, unsigned i) { return i / 4 * (tile / 2) + thread * 4 + i % 4; }

__device__ void load(const float* tile_row, unsigned thread, float (&numbers)[own]) {
#pragma unroll
  for (unsigned i = 0; i < own; i += 4)
    *reinterpret_cast<float4*>(numbers + i) = *reinterpret_cast<const float4*>(tile_row + place(thread, i));
}

template <bool transposed_a, bool transposed_b>
__global__ void __launch_bounds__(block_threads, 2)
    fast_kernel(const float* a, const float* b, unsigned inner, ProductResult result) {
  float* const shared = shared_memory<float>();  // [stages][2][tile_numbers]
  const Corner corner = corner_of_block(result, tile);
  const unsigned row = corner.row, column = corner.column;
  const unsigned y = threadIdx.x / 16, x = threadIdx.x % 16;
  const TilesOfShare tiles(divide_up(inner, depth));
  const auto bring_stage = [&](unsigned number) {
    float* const to = shared + number % stages * 2 * tile_numbers;
    if (number < tiles.end) {
      bring<transposed_a>(a, result.rows, inner, row, number * depth, to);
      bring<!transposed_b>(b, result.columns, inner, column, number * depth, to + tile_numbers);
    }
    end_copies();  // even if the group is empty, so that there are as many groups as stages
  };
  float sums[own][own] = {};
  for (unsigned ahead = 0; ahead + 1 < stages; ++ahead) bring_stage(tiles.begin + ahead);
  for (unsigned number = tiles.begin; number < tiles.end; ++number) {
    wait_for_copies<stages - 2>();
    __syncthreads();  // all copies are visible, and no thread reads what the next copies overwrite
    bring_stage(number + stages - 1);
    const float* const of_a = shared + number % stages * 2 * tile_numbers;
#pragma unroll
    for (unsigned k = 0; k < depth; ++k) {
      float left[own], right[own];
      load(of_a + k * stride, y, left);
      load(of_a + tile_numbers + k * stride, x, right);
#pragma unroll
      for (unsigned i = 0; i < own; ++i) {
#pragma unroll
        for (unsigned j = 0; j < own; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
      }
    }
  }
  const unsigned left = column + x * 4;
  const ProductResult to = of_share(result);
#pragma unroll
  for (unsigned i = 0; i < own; ++i) {
    const unsigned at_row = row + place(y, i);
    if (at_row >= result.rows) continue;
    float* const out = to.c + std::size_t{at_row} * result.columns + left;
#pragma unroll
    for (unsigned j = 0; j < own; ++j) {
      if (left + place(0, j) < result.columns) to.put_at(out + place(0, j), sums[i][j]);
    }
  }
}

}  // namespace fast

__global__ void add_shares_kernel(ProductResult result, ProductShares shares) {
  const std::size_t size = std::size_t{result.rows} * result.columns;
  for_each(size, [=](std::size_t i) {
    float sum = 0;
    for (unsigned share = 0; share < shares.count; ++share) sum += shares.partials[share * size + i];
    result.put_at(result.c + i, sum);
  });
}

}  // namespace

void add_shares(cudaStream_t stream, const ProductResult& result, const ProductShares& shares) {
  if (shares.count > 1)
    launch(grid_for(std::size_t{result.rows} * result.columns), stream, add_shares_kernel, result, shares);
}

void gemm(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
          const float* a, const float* b, float beta, float* c) {
  const auto rows = static_cast<unsigned>(m), columns = static_cast<unsigned>(n),
             inner = static_cast<unsigned>(k);
  if (rows == 0 || columns == 0) return;
  const ProductResult result{alpha, beta, c, rows, columns};
  launch({blocks_of(result, tile), dim3(side, side), 2 * depth * tile * sizeof(float)}, stream, simple_kernel,
         Matrix{a, rows, inner, transpose_a == Transpose::yes},
         Matrix{b, inner, columns, transpose_b == Transpose::yes}, result);
}

std::size_t blocks_of_fast_gemm(int m, int n) {
  return std::size_t{divide_up(static_cast<std::size_t>(m), fast::tile)} *
         divide_up(static_cast<std::size_t>(n), fast::tile);
}

void gemm_fast(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n, int k,
               float alpha, const float* a, const float* b, float beta, float* c,
               const ProductShares& shares) {
  if (m == 0 || n == 0) return;
  const ProductResult result{alpha, beta, c, static_cast<unsigned>(m), static_cast<unsigned>(n)};
  const bool of_a = transpose_a == Transpose::yes, of_b = transpose_b == Transpose::yes;
  const auto kernel = of_a ? (of_b ? fast::fast_kernel<true, true> : fast::fast_kernel<true, false>)
                           : (of_b ? fast::fast_kernel<false, true> : fast::fast_kernel<false, false>);
  launch({dim3(blocks_of(result, fast::tile), 1, shares.count), fast::block_threads,
          fast::stages * 2 * fast::tile_numbers * sizeof(float)},
         stream, kernel, a, b, static_cast<unsigned>(k), result_of_shares(result, shares));
  add_shares(stream, result, shares);
}

}  // namespace mlk::cuda
