// Products of small bfloat16 matrices by a whole warp, with float32 sums (mma.sync, compute capability 8.0),
// and how their factors come from shared memory (ldmatrix).
//
// The matrices are spread over the lanes (PTX ISA, "Matrix Fragments for mma.m16n8k16"). A pair is two
// numbers that follow each other. With g = lane / 4 and t = 2 * (lane % 4), a lane has these numbers:
//   Sums    d[16][8]   4 floats:   (g, t), (g, t + 1), (g + 8, t), (g + 8, t + 1)
//   Left    a[16][16]  4 pairs:    (g, t), (g + 8, t), (g, t + 8), (g + 8, t + 8), along a row
//   Right   b[16][8]   2 pairs:    (t, g), (t + 8, g), along a column
// So two adjacent Sums, once rounded, form a Left.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/cuda/base/cuda.h"

namespace mlk::cuda {

using kernels::BFloat16;

using Sums = float[4];
using Left = std::uint32_t[4];
using Right = std::uint32_t[2];

#ifdef __CUDACC__

// d += a * b.
__device__ inline void multiply_add(Sums& d, const Left& a, const Right& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Loads four matrices of 8 x 8 numbers from shared memory. Lane 8 * m + r has the address of row r of matrix
// m. A row has 16 bytes and is aligned to 16 bytes. Each lane gets the pair (g, t) of each matrix, or of its
// transpose if `transposed`.
template <bool transposed>
__device__ void load_matrices(std::uint32_t (&out)[4], const BFloat16* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  }
}

// Two numbers, rounded.
__device__ inline std::uint32_t pair_of(float first, float second) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

#else

inline void multiply_add(Sums& d, const Left& a, const Right& b,
                         const emulator::Where& where = emulator::Where::current()) {
  emulator::multiply_add(d, a, b, where);
}

template <bool transposed>
void load_matrices(std::uint32_t (&out)[4], const BFloat16* row,
                   const emulator::Where& where = emulator::Where::current()) {
  emulator::load_matrices(out, row, transposed, where);
}

inline std::uint32_t pair_of(float first, float second) {
  return kernels::to_bfloat16(first).bits | std::uint32_t{kernels::to_bfloat16(second).bits} << 16;
}

#endif

// A matrix of bfloat16 in shared memory, whose rows are cut into pieces of 16 bytes. The pieces of a row
// change their places from row to row, so that 8 rows of one column of pieces lie in different banks.
template <unsigned columns>
struct Tile {
  static_assert(columns % 32 == 0);
  static constexpr unsigned stride = columns;
  static constexpr unsigned piece = 8, pieces = columns / piece;  // numbers of a piece; pieces of a row
  BFloat16* numbers;

  // column: the first column of a piece.
  __device__ BFloat16* at(unsigned row, unsigned column) const {
    const unsigned turn = pieces >= 8 ? row % 8 : row / 2 % 4;
    return numbers + row * stride + (column / piece ^ turn) * piece;
  }

  // Loads `a`, 16 x 16 numbers of the tile (or of its transpose, if `transposed`) from `row` and `column` on.
  template <bool transposed = false>
  __device__ void load(Left& a, unsigned row, unsigned column) const {
    const unsigned lane = threadIdx.x % warp_threads;
    if constexpr (transposed) {
      load_matrices<true>(a, at(column + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8));
    } else {
      load_matrices<false>(a, at(row + lane % 16, column + lane / 16 * 8));
    }
  }

  // Loads two adjacent matrices `b` of the tile (or of its transpose, if `transposed`): 16 rows from `row`
  // on, and 16 columns from `column` on.
  template <bool transposed = false>
  __device__ void load(Right& left, Right& right, unsigned row, unsigned column) const {
    const unsigned lane = threadIdx.x % warp_threads;
    std::uint32_t pairs[4];
    if constexpr (transposed) {
      load_matrices<false>(pairs, at(column + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8));
    } else {
      load_matrices<true>(pairs, at(row + lane % 16, column + lane / 16 * 8));
    }
    left[0] = pairs[0], left[1] = pairs[1];
    right[0] = pairs[2], right[1] = pairs[3];
  }
};

// Sets `a` to two adjacent Sums, rounded.
__device__ inline void to_left(Left& a, const Sums& first, const Sums& second) {
  a[0] = pair_of(first[0], first[1]);
  a[1] = pair_of(first[2], first[3]);
  a[2] = pair_of(second[0], second[1]);
  a[3] = pair_of(second[2], second[3]);
}

}  // namespace mlk::cuda
