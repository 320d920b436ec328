// What the passes of attention on tensor cores have in common (Dao et al. 2022; Dao 2023). A block has 4
// warps and one head of one sequence; a warp has 16 rows of each of its products, so that sums over a row
// stay in four lanes. Positions beyond the end are zeros in the tiles.
#pragma once

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/bfloat16.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/tensor_cores.h"

namespace mlk::cuda {

inline constexpr unsigned attention_threads = 128, attention_warps = attention_threads / warp_threads;
inline constexpr float log2_of_e = 1.4426950408889634f;

// One head of one sequence in a tensor: a vector of `size` numbers for each position.
template <unsigned size, typename Number>
struct Vectors {
  Number* numbers;
  std::size_t stride;  // from a position to the next
  unsigned length;

  __device__ Number* at(unsigned position) const { return numbers + position * stride; }
};

struct Heads {
  unsigned length, heads;

  // The head of this block in qkv or its gradient. part: 0 queries, 1 keys, 2 values.
  template <unsigned size, typename Number>
  __device__ Vectors<size, Number> in_qkv(Number* qkv, unsigned part) const {
    const std::size_t stride = std::size_t{3} * heads * size;
    return {qkv + blockIdx.y / heads * length * stride + (part * heads + blockIdx.y % heads) * size, stride,
            length};
  }
  // In `out` or its gradient.
  template <unsigned size, typename Number>
  __device__ Vectors<size, Number> in_out(Number* out) const {
    const std::size_t stride = std::size_t{heads} * size;
    return {out + blockIdx.y / heads * length * stride + blockIdx.y % heads * size, stride, length};
  }
  // In numbers of which there is one for each head of a position.
  __device__ std::size_t in_sums(unsigned position) const {
    return std::size_t{blockIdx.y} * length + position;
  }
};

// Begins to copy the vectors of `rows` positions to a tile.
template <unsigned rows, unsigned size>
__device__ void bring(const Vectors<size, const BFloat16>& from, unsigned first, const Tile<size>& to) {
  constexpr unsigned piece = Tile<size>::piece, pieces = Tile<size>::pieces;
  for (unsigned i = threadIdx.x; i < rows * pieces; i += attention_threads) {
    const unsigned position = first + i / pieces, column = i % pieces * piece;
    const bool inside = position < from.length;
    copy_async<16>(to.at(i / pieces, column), from.at(inside ? position : 0) + column, inside ? 16 : 0);
  }
}

// sums[16][columns] = rows row.. of `left` times the vectors of `right`, of which each makes a column.
template <unsigned size, unsigned columns>
__device__ void multiply_by_vectors(Sums (&sums)[columns / 8], const Tile<size>& left, unsigned row,
                                    const Tile<size>& right) {
#pragma unroll
  for (unsigned j = 0; j < columns / 8; ++j) {
#pragma unroll
    for (float& sum : sums[j]) sum = 0;
  }
#pragma unroll 2  // of all, the addresses take more registers than there are
  for (unsigned k = 0; k < size; k += 16) {
    Left a;
    left.load(a, row, k);
#pragma unroll
    for (unsigned j = 0; j < columns / 8; j += 2) {
      Right b[2];
      right.template load<true>(b[0], b[1], k, j * 8);
      multiply_add(sums[j], a, b[0]);
      multiply_add(sums[j + 1], a, b[1]);
    }
  }
}

// sums[16][size] += weights[16][columns], rounded, times the vectors of `right`.
template <unsigned size, unsigned columns>
__device__ void add_weighted(Sums (&sums)[size / 8], const Sums (&weights)[columns / 8],
                             const Tile<size>& right) {
#pragma unroll
  for (unsigned k = 0; k < columns; k += 16) {
    Left a;
    to_left(a, weights[k / 8], weights[k / 8 + 1]);
#pragma unroll
    for (unsigned j = 0; j < size / 8; j += 2) {
      Right b[2];
      right.load(b[0], b[1], k, j * 8);
      multiply_add(sums[j], a, b[0]);
      multiply_add(sums[j + 1], a, b[1]);
    }
  }
}

// Of the four lanes that have a row.
template <typename Operation>
__device__ float reduce_row(float value, Operation operation) {
  value = operation(value, __shfl_xor_sync(all_lanes, value, 1));
  return operation(value, __shfl_xor_sync(all_lanes, value, 2));
}

// Writes rows of sums[16][size] to the vectors of the positions that they belong to; factor(half): of rows
// lane / 4 and lane / 4 + 8.
template <unsigned size>
__device__ void put_rows(const Sums (&sums)[size / 8], const float (&factors)[2], unsigned first,
                         const Vectors<size, float>& to) {
  const unsigned lane = threadIdx.x % warp_threads;
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned position = first + lane / 4 + half * 8;
    if (position >= to.length) continue;
    float* const out = to.at(position) + lane % 4 * 2;
#pragma unroll
    for (unsigned j = 0; j < size / 8; ++j) {
      const float2 pair{sums[j][half * 2] * factors[half], sums[j][half * 2 + 1] * factors[half]};
      *reinterpret_cast<float2*>(out + j * 8) = pair;
    }
  }
}

}  // namespace mlk::cuda
