// Where the numbers of a product go: c[rows, columns] = alpha * sums + beta * c. Also divides long inner
// sides into shares: a product of a few large tiles has too few blocks for a device, so each of `shares`
// groups of blocks adds up a part of the inner side. Then another kernel adds up the sums of the shares, in
// their order.
#pragma once

#include "kernels/cuda/base/bfloat16.h"
#include "kernels/cuda/base/cuda.h"

namespace mlk::cuda {

struct ProductResult {
  float alpha, beta;
  float* c;
  unsigned rows, columns;

  __device__ void put_at(float* out, float sum) const {
    // With beta 0, this does not read `c`, which may hold anything, even NaN.
    *out = beta == 0 ? alpha * sum : alpha * sum + beta * *out;
  }
  // Stores nothing beyond the edges.
  __device__ void put(unsigned row, unsigned column, float sum) const {
    if (row < rows && column < columns) put_at(c + std::size_t{row} * columns + column, sum);
  }
};

// Where the sums of a product go: to `c` if there is one share, otherwise to the partial sums of the shares.
inline ProductResult result_of_shares(const ProductResult& result, const ProductShares& shares) {
  return shares.count == 1 ? result : ProductResult{1, 0, shares.partials, result.rows, result.columns};
}

// Each block has a tile of c, of `side` rows and columns. The blocks follow each other along x, row by row,
// because a grid may have 2^31 blocks along x, but only 65535 along y.
inline unsigned blocks_of(const ProductResult& result, unsigned side) {
  return divide_up(result.rows, side) * divide_up(result.columns, side);
}
struct Corner {
  unsigned row, column;
};
__device__ inline Corner corner_of_block(const ProductResult& result, unsigned side) {
  const unsigned across = divide_up(result.columns, side);
  return {blockIdx.x / across * side, blockIdx.x % across * side};
}

// The inner side is cut into `tiles` tiles. These are the tiles of this block's share, whose number is
// blockIdx.z.
struct TilesOfShare {
  unsigned begin, end;
  __device__ explicit TilesOfShare(unsigned tiles)
      : begin(static_cast<unsigned>(std::size_t{tiles} * blockIdx.z / gridDim.z)),
        end(static_cast<unsigned>(std::size_t{tiles} * (blockIdx.z + 1) / gridDim.z)) {}
};
// Where the sums of this share go.
__device__ inline ProductResult of_share(ProductResult result) {
  result.c += std::size_t{blockIdx.z} * result.rows * result.columns;
  return result;
}

// Adds up the sums of the shares and stores the result. Does nothing if there is one share.
void add_shares(cudaStream_t stream, const ProductResult& result, const ProductShares& shares);

}  // namespace mlk::cuda
