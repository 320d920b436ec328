// The product of rounded matrices by tensor cores, for machines without cuBLASLt. A block of 4 warps computes
// 128 x 128 numbers of `c`, a warp 64 x 64 of them, from tiles of `a` and `b` that are 32 deep. Three pairs
// of tiles are in shared memory: while one pair is multiplied, the next two are loaded by asynchronous
// copies.
#include "kernels/cuda/base/async_copy.h"
#include "kernels/cuda/base/bfloat16.h"
#include "kernels/cuda/base/tensor_cores.h"
#include "kernels/cuda/products/gemm_result.h"

namespace mlk::cuda {
namespace {

constexpr unsigned side = 128, depth = 32, stages = 3, block_threads = 128;
constexpr unsigned warp_rows = 64, warp_columns = 64, warps_beside = side / warp_columns;
constexpr unsigned tile_numbers = side * depth;

// A matrix as it is stored: its rows have padded(columns) numbers.
struct Stored {
  const BFloat16* numbers;
  unsigned rows, columns;
};

// Copies the part of a matrix that begins at (row, column) to a tile of the given size; numbers beyond the
// matrix are zeros.
template <unsigned rows, unsigned columns>
__device__ void bring(const Stored& from, unsigned row, unsigned column, const Tile<columns>& to) {
  constexpr unsigned piece = Tile<columns>::piece, pieces = Tile<columns>::pieces;
  const auto stride = static_cast<unsigned>(padded(from.columns));
  for (unsigned i = threadIdx.x; i < rows * pieces; i += block_threads) {
    const unsigned at_row = row + i / pieces, at_column = column + i % pieces * piece;
    const bool inside = at_row < from.rows && at_column < from.columns;
    const BFloat16* const source =
        inside ? from.numbers + std::size_t{at_row} * stride + at_column : from.numbers;
    copy_async<16>(to.at(i / pieces, i % pieces * piece), source, inside ? 16 : 0);
  }
}

// One of the two factors. Its tile has the layout of the matrix: [side][depth], or [depth][side] if
// `depth_first`.
template <bool depth_first>
struct Factor {
  static constexpr unsigned columns = depth_first ? side : depth;
  Stored matrix;

  __device__ static Tile<columns> tile(BFloat16* numbers) { return {numbers}; }
  __device__ void bring_part(unsigned outer, unsigned inner, BFloat16* numbers) const {
    if constexpr (depth_first) {
      bring<depth, side>(matrix, inner, outer, tile(numbers));
    } else {
      bring<side, depth>(matrix, outer, inner, tile(numbers));
    }
  }
};

template <bool transposed_a, bool transposed_b>
__global__ void __launch_bounds__(block_threads)
    gemm_bfloat16_kernel(Factor<transposed_a> a, Factor<!transposed_b> b, unsigned inner,
                         ProductResult result) {
  BFloat16* const shared = shared_memory<BFloat16>();  // [stages][2][tile_numbers]
  const Corner corner = corner_of_block(result, side);
  const unsigned row = corner.row, column = corner.column;
  const unsigned warp = threadIdx.x / warp_threads;
  const unsigned warp_row = warp / warps_beside * warp_rows, warp_column = warp % warps_beside * warp_columns;
  const TilesOfShare tiles(divide_up(inner, depth));
  const auto bring_stage = [&](unsigned number) {
    BFloat16* const to = shared + number % stages * 2 * tile_numbers;
    if (number < tiles.end) {
      a.bring_part(row, number * depth, to);
      b.bring_part(column, number * depth, to + tile_numbers);
    }
    end_copies();  // even if the group is empty, so that there are as many groups as stages
  };
  Sums sums[warp_rows / 16][warp_columns / 8] = {};
  for (unsigned ahead = 0; ahead + 1 < stages; ++ahead) bring_stage(tiles.begin + ahead);
  for (unsigned number = tiles.begin; number < tiles.end; ++number) {
    wait_for_copies<stages - 2>();
    __syncthreads();  // all copies are visible, and no thread reads what the next copies overwrite
    bring_stage(number + stages - 1);
    BFloat16* const from = shared + number % stages * 2 * tile_numbers;
    const auto of_a = a.tile(from);
    const auto of_b = b.tile(from + tile_numbers);
    for (unsigned k = 0; k < depth; k += 16) {
      Left left[warp_rows / 16];
      Right right[warp_columns / 8];
#pragma unroll
      for (unsigned i = 0; i < warp_rows / 16; ++i)
        of_a.template load<transposed_a>(left[i], warp_row + i * 16, k);
#pragma unroll
      for (unsigned j = 0; j < warp_columns / 8; j += 2)
        of_b.template load<transposed_b>(right[j], right[j + 1], k, warp_column + j * 8);
#pragma unroll
      for (unsigned i = 0; i < warp_rows / 16; ++i) {
#pragma unroll
        for (unsigned j = 0; j < warp_columns / 8; ++j) multiply_add(sums[i][j], left[i], right[j]);
      }
    }
  }
  const unsigned lane = threadIdx.x % warp_threads;
  const ProductResult to = of_share(result);
#pragma unroll
  for (unsigned i = 0; i < warp_rows / 16; ++i) {
#pragma unroll
    for (unsigned j = 0; j < warp_columns / 8; ++j) {
      const unsigned at_row = row + warp_row + i * 16 + lane / 4;
      const unsigned at_column = column + warp_column + j * 8 + lane % 4 * 2;
#pragma unroll
      for (unsigned of = 0; of < 4; ++of) to.put(at_row + of / 2 * 8, at_column + of % 2, sums[i][j][of]);
    }
  }
}

template <bool transposed_a, bool transposed_b>
void launch_product(cudaStream_t stream, unsigned inner, const BFloat16* a, const BFloat16* b,
                    const ProductResult& result, unsigned shares) {
  const auto stored = [inner](const BFloat16* numbers, unsigned outer, bool inner_first) {
    return Stored{numbers, inner_first ? inner : outer, inner_first ? outer : inner};
  };
  const Grid grid{dim3(blocks_of(result, side), 1, shares), block_threads,
                  stages * 2 * tile_numbers * sizeof(BFloat16)};
  launch(grid, stream, gemm_bfloat16_kernel<transposed_a, transposed_b>,
         Factor<transposed_a>{stored(a, result.rows, transposed_a)},
         Factor<!transposed_b>{stored(b, result.columns, !transposed_b)}, inner, result);
}

}  // namespace

void gemm_bfloat16(cudaStream_t stream, Transpose transpose_a, Transpose transpose_b, int m, int n, int k,
                   float alpha, const BFloat16* a, const BFloat16* b, float beta, float* c,
                   const ProductShares& shares) {
  if (m == 0 || n == 0) return;
  const ProductResult result{alpha, beta, c, static_cast<unsigned>(m), static_cast<unsigned>(n)};
  const auto inner = static_cast<unsigned>(k);
  const bool of_a = transpose_a == Transpose::yes, of_b = transpose_b == Transpose::yes;
  const auto product = of_a ? (of_b ? launch_product<true, true> : launch_product<true, false>)
                            : (of_b ? launch_product<false, true> : launch_product<false, false>);
  product(stream, inner, a, b, result_of_shares(result, shares), shares.count);
  add_shares(stream, result, shares);
}

}  // namespace mlk::cuda
