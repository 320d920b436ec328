// After K. Goto and R. van de Geijn, Anatomy of high-performance matrix multiplication (TOMS 34, 2008), with
// a tile of 6 x 16 sums in registers. Only b is packed in blocks, that fit the second cache; of a six rows at
// a time are used against all of such a block, and stay in the first.
#include "kernels/avx2_gemm.h"

#include <algorithm>
#include <array>
#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define MLK_AVX2 [[gnu::target("avx2,fma")]]

namespace mlk::kernels {
namespace {

constexpr int tile_rows = 6, lanes = 8, tile_columns = 2 * lanes;
constexpr int most_depth = 256, most_packed = 64 * 1024;  // of a block of b: rows, and numbers in all

// A matrix as it is stored: element (i, j) is at i * row + j * column.
struct Strided {
  const float* data;
  std::ptrdiff_t row, column;
  Strided from(std::ptrdiff_t i, std::ptrdiff_t j) const {
    return {data + i * row + j * column, row, column};
  }
};

// c[rows, 16] = alpha * a[rows, depth] * packed[depth, 16] + beta * c
template <int rows>
MLK_AVX2 void multiply_tile(int depth, Strided a, const float* packed, float alpha, float beta, float* c,
                            std::ptrdiff_t ldc) {
  __m256 sums[rows][2];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int p = 0; p < depth; ++p, a.data += a.column, packed += tile_columns) {
    const __m256 left = _mm256_loadu_ps(packed), right = _mm256_loadu_ps(packed + lanes);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const __m256 factor = _mm256_broadcast_ss(a.data + i * a.row);
      sums[i][0] = _mm256_fmadd_ps(factor, left, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(factor, right, sums[i][1]);
    }
  }
  const __m256 scale = _mm256_set1_ps(alpha), keep = _mm256_set1_ps(beta);
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i, c += ldc) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* out = c + half * lanes;
      __m256 sum = _mm256_mul_ps(scale, sums[i][half]);
      if (beta != 0) sum = _mm256_fmadd_ps(keep, _mm256_loadu_ps(out), sum);
      _mm256_storeu_ps(out, sum);
    }
  }
}

using MultiplyTile = void (*)(int, Strided, const float*, float, float, float*, std::ptrdiff_t);
constexpr std::array<MultiplyTile, tile_rows + 1> multiply_tiles = {
    nullptr,          multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
    multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

// The same on fewer than 16 columns.
void multiply_edge(int rows, int columns, int depth, Strided a, const float* packed, float alpha, float beta,
                   float* c, std::ptrdiff_t ldc) {
  std::array<float, tile_rows * tile_columns> whole;
  for (int i = 0; beta != 0 && i < rows; ++i) std::copy_n(c + i * ldc, columns, &whole[i * tile_columns]);
  multiply_tiles[rows](depth, a, packed, alpha, beta, whole.data(), tile_columns);
  for (int i = 0; i < rows; ++i) std::copy_n(&whole[i * tile_columns], columns, c + i * ldc);
}

// out[p, 0..8) = in[0..8, p] for 8 values of p; rows of in are `row` apart, those of out 16.
MLK_AVX2 void transpose(const float* in, std::ptrdiff_t row, float* out) {
  __m256 rows[8], pairs[8], fours[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) rows[i] = _mm256_loadu_ps(in + i * row);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + i * tile_columns, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * tile_columns, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
  }
}

// out[depth, 16] = b[depth, columns] and zeros.
MLK_AVX2 void pack_columns(int depth, int columns, Strided b, float* out) {
  for (int j = 0; j < tile_columns; j += lanes, out += lanes) {
    const float* in = b.data + j * b.column;
    const int here = std::clamp(columns - j, 0, lanes);
    int p = 0;
    if (here == lanes && b.column == 1) {
      for (; p < depth; ++p) _mm256_storeu_ps(out + p * tile_columns, _mm256_loadu_ps(in + p * b.row));
    } else if (here == lanes) {
      for (; p + 8 <= depth; p += 8) transpose(in + p, b.column, out + p * tile_columns);
    }
    for (; p < depth; ++p) {
      for (int i = 0; i < lanes; ++i) out[p * tile_columns + i] = i < here ? in[p * b.row + i * b.column] : 0;
    }
  }
}

// out[depth, rows] = a[rows, depth] transposed, where the rows of a lie beside each other. With `more`, two
// further rows may be read; two numbers beyond the end of out may be written.
MLK_AVX2 Strided pack_rows(int rows, int depth, Strided a, bool more, float* out) {
  if (rows == tile_rows && more) {
    for (int p = 0; p < depth; ++p)
      _mm256_storeu_ps(out + p * tile_rows, _mm256_loadu_ps(a.data + p * a.column));
  } else {
    for (int p = 0; p < depth; ++p) std::copy_n(a.data + p * a.column, rows, out + p * rows);
  }
  return {out, 1, rows};
}

Strided stored(Transpose transpose, const float* data, int leading) {
  return transpose == Transpose::yes ? Strided{data, 1, leading} : Strided{data, leading, 1};
}

// Evenly, and in eights, which are what transpose() takes.
int depth_of_blocks(int k) {
  const int blocks = (k + most_depth - 1) / most_depth;
  return ((k + blocks - 1) / blocks + 7) / 8 * 8;
}

}  // namespace

bool has_avx2_gemm() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

void avx2_gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
               int lda, const float* b, int ldb, float beta, float* c, int ldc, std::vector<float>& space) {
  const Strided all_a = stored(transpose_a, a, lda), all_b = stored(transpose_b, b, ldb);
  const int depth = depth_of_blocks(k), width = most_packed / depth / tile_columns * tile_columns;
  const std::size_t size_of_rows = static_cast<std::size_t>(depth) * tile_rows + lanes;
  if (space.size() < size_of_rows + most_packed) space.resize(size_of_rows + most_packed);
  float* const packed_rows = space.data();
  float* const packed_b = packed_rows + size_of_rows;
  for (int column = 0; column < n; column += width) {
    const int columns = std::min(width, n - column);
    for (int at = 0; at < k; at += depth) {
      const int deep = std::min(depth, k - at);
      const float keep = at == 0 ? beta : 1;
      for (int j = 0; j < columns; j += tile_columns)
        pack_columns(deep, std::min(tile_columns, columns - j), all_b.from(at, column + j),
                     packed_b + j * deep);
      for (int row = 0; row < m; row += tile_rows) {
        const int rows = std::min(tile_rows, m - row);
        Strided of_a = all_a.from(row, at);
        if (transpose_a == Transpose::yes) of_a = pack_rows(rows, deep, of_a, row + lanes <= m, packed_rows);
        float* out = c + static_cast<std::ptrdiff_t>(row) * ldc + column;
        for (int j = 0; j < columns; j += tile_columns) {
          const float* packed = packed_b + j * deep;
          if (columns - j >= tile_columns) {
            multiply_tiles[rows](deep, of_a, packed, alpha, keep, out + j, ldc);
          } else {
            multiply_edge(rows, columns - j, deep, of_a, packed, alpha, keep, out + j, ldc);
          }
        }
      }
    }
  }
}

}  // namespace mlk::kernels

#else

namespace mlk::kernels {

bool has_avx2_gemm() { return false; }
void avx2_gemm(Transpose, Transpose, int, int, int, float, const float*, int, const float*, int, float,
               float*, int, std::vector<float>&) {}

}  // namespace mlk::kernels

#endif
