// The common parts of the fast passes of attention (Dao et al. 2022; Dao 2023). A block has one head of one
// sequence and some positions of its own, `rows` for each warp. The block iterates over the other positions
// tile by tile, `step` at a time: while one tile is multiplied, the next one is copied to shared memory.
// Positions beyond the end are zeros in the tiles.
//
// An engine computes the products. A warp computes `rows` rows, and each lane has some numbers of
// `rows_of_lane` rows. The results are of two types:
//   Scores   weights, or their gradients: one for each pair (position of the warp, position of the tile)
//   Means    vectors of a head that are summed up
#pragma once

#include "kernels/cuda/base/async_copy.h"
#include "kernels/cuda/base/bfloat16.h"
#include "kernels/cuda/base/kernels.h"
#include "kernels/cuda/base/reduce.h"

namespace mlk::cuda {

inline constexpr float log2_of_e = 1.4426950408889634f;

// The vectors of one head of one sequence, one for each position.
template <typename Number>
struct HeadVectors {
  Number* numbers;
  std::size_t stride;  // from a position to the next
  unsigned length;

  __device__ Number* at(unsigned position) const { return numbers + position * stride; }
};

struct Heads {
  unsigned length, heads, size;

  // The head of this block in qkv or its gradient. part: 0 queries, 1 keys, 2 values.
  template <typename Number>
  __device__ HeadVectors<Number> in_qkv(Number* qkv, unsigned part) const {
    const std::size_t stride = std::size_t{3} * heads * size;
    return {qkv + blockIdx.y / heads * length * stride + (part * heads + blockIdx.y % heads) * size, stride,
            length};
  }
  // The head of this block in `out` or its gradient.
  template <typename Number>
  __device__ HeadVectors<Number> in_out(Number* out) const {
    const std::size_t stride = std::size_t{heads} * size;
    return {out + blockIdx.y / heads * length * stride + blockIdx.y % heads * size, stride, length};
  }
  // The place in tensors that have one number for each head of a position.
  __device__ std::size_t in_sums(unsigned position) const {
    return std::size_t{blockIdx.y} * length + position;
  }
};

inline Heads heads_of(const AttentionShape& shape) {
  return {static_cast<unsigned>(shape.length), static_cast<unsigned>(shape.heads),
          static_cast<unsigned>(shape.head_size)};
}

// The shared memory of a block: tiles of its own positions, then two stages, each with two tiles of other
// positions.
template <typename Engine, unsigned own_tiles>
struct AttentionMemory {
  using Number = typename Engine::Number;
  using Tile = typename Engine::Tile;
  static constexpr unsigned step = Engine::step;
  static constexpr unsigned own = Engine::warps * Engine::rows, threads = Engine::warps * warp_threads;
  static constexpr unsigned tile_numbers = (own_tiles * own + 4 * step) * Tile::stride;
  static constexpr unsigned query_numbers = own_tiles == 2 ? 4 * step : 0;
  static constexpr unsigned bytes = tile_numbers * sizeof(Number) + query_numbers * sizeof(float) +
                                    Engine::warps * Engine::scratch * sizeof(float);
  Number* numbers;

  __device__ Tile own_tile(unsigned which) const { return {numbers + which * own * Tile::stride}; }
  __device__ Tile tile(unsigned number, unsigned which) const {
    return {numbers + (own_tiles * own + (number % 2 * 2 + which) * step) * Tile::stride};
  }
  // The memory for one number of each query of a stage. which: 0 log_sums, 1 dots.
  __device__ float* of_queries(unsigned number, unsigned which) const {
    return reinterpret_cast<float*>(numbers + tile_numbers) + (number % 2 * 2 + which) * step;
  }
  // The scratch memory of this warp.
  __device__ float* scratch() const {
    return reinterpret_cast<float*>(numbers + tile_numbers) + query_numbers +
           threadIdx.x / warp_threads * Engine::scratch;
  }

  // Begins to copy the vectors of `rows` positions to a tile.
  template <unsigned rows>
  __device__ static void bring(const HeadVectors<const Number>& from, unsigned first, const Tile& to) {
    constexpr unsigned piece = 16 / sizeof(Number), pieces = Engine::size / piece;
    for (unsigned i = threadIdx.x; i < rows * pieces; i += threads) {
      const unsigned position = first + i / pieces, column = i % pieces * piece;
      const bool inside = position < from.length;
      copy_async<16>(to.at(i / pieces, column), from.at(inside ? position : 0) + column, inside ? 16 : 0);
    }
  }
};

}  // namespace mlk::cuda
