// The algorithm of K. Goto and R. van de Geijn, Anatomy of high-performance matrix multiplication (TOMS 34,
// 2008), with a tile of 6 x 16 sums in registers. Both matrices are packed in blocks. 16 columns of `b` stay
// in L1 while they are multiplied by all rows of a block of `a`. This block fits into L2.
#include "kernels/cpu/avx2_gemm.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/strided.h"
#include "kernels/cpu/watched.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define MLK_AVX2 [[gnu::target("avx2,fma")]] MLK_UNWATCHED

namespace mlk::kernels {
namespace {

constexpr int tile_rows = 6, lanes = 8, tile_columns = 2 * lanes;
constexpr int most_depth = 256;                      // so 16 columns of `b` have 16 KiB
constexpr int most_rows = 216, most_columns = 1024;  // rows of a block of `a`; columns of a block of `b`
constexpr int strips_at_once = 8;

// c[rows, 16] = alpha * a[depth, rows] * b[depth, 16] + beta * c
template <int rows>
MLK_AVX2 void multiply_tile(int depth, const float* a, const float* b, float alpha, float beta, float* c,
                            std::ptrdiff_t ldc) {
  __m256 sums[rows][2];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) {
    _mm_prefetch(reinterpret_cast<const char*>(c + i * ldc), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(c + i * ldc + tile_columns - 1), _MM_HINT_T0);
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int p = 0; p < depth; ++p, a += rows, b += tile_columns) {
    const __m256 left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + lanes);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const __m256 factor = _mm256_broadcast_ss(a + i);
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

using MultiplyTile = void (*)(int, const float*, const float*, float, float, float*, std::ptrdiff_t);
constexpr std::array<MultiplyTile, tile_rows + 1> multiply_tiles = {
    nullptr,          multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
    multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

// Does the same as multiply_tile for fewer than 16 columns.
void multiply_edge(int rows, int columns, int depth, const float* a, const float* b, float alpha, float beta,
                   float* c, std::ptrdiff_t ldc) {
  std::array<float, tile_rows * tile_columns> whole;
  for (int i = 0; beta != 0 && i < rows; ++i) std::copy_n(c + i * ldc, columns, &whole[i * tile_columns]);
  multiply_tiles[rows](depth, a, b, alpha, beta, whole.data(), tile_columns);
  for (int i = 0; i < rows; ++i) std::copy_n(&whole[i * tile_columns], columns, c + i * ldc);
}

// The columns of a square of 8 x 8 numbers. columns_of() reads only the first `rows` rows of the square.
struct Columns {
  __m256 at[8];
};
MLK_AVX2 Columns columns_of(int rows, const float* in, std::ptrdiff_t row) {
  __m256 lines[8], pairs[8], fours[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) lines[i] = i < rows ? _mm256_loadu_ps(in + i * row) : _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(lines[i], lines[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(lines[i], lines[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  Columns columns;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    columns.at[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    columns.at[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
  return columns;
}

// out[depth, 16] = b[depth, columns], filled up with zeros.
MLK_AVX2 void pack_columns(int depth, int columns, Strided b, float* out) {
  for (int j = 0; j < tile_columns; j += lanes, out += lanes) {
    const float* in = b.data + j * b.column;
    const int here = std::clamp(columns - j, 0, lanes);
    int p = 0;
    if (here == lanes && b.column == 1) {
      for (; p < depth; ++p) _mm256_storeu_ps(out + p * tile_columns, _mm256_loadu_ps(in + p * b.row));
    } else if (here == lanes) {
      for (; p + 8 <= depth; p += 8) {
        const Columns columns_here = columns_of(8, in + p, b.column);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) _mm256_storeu_ps(out + (p + i) * tile_columns, columns_here.at[i]);
      }
    }
    for (; p < depth; ++p) {
      for (int i = 0; i < lanes; ++i) out[p * tile_columns + i] = i < here ? in[p * b.row + i * b.column] : 0;
    }
  }
}

// Packs strips of six rows, one after the other: out[strip][depth, 6] = the transpose of a[6, depth]. The
// last strip has the rows that are left. A store writes eight numbers, and the next store overwrites the
// last two. So up to two numbers beyond the end of `out` may be written.
MLK_AVX2 void pack_rows(int rows, int depth, Strided a, float* out) {
  const int whole = rows / tile_rows;
  if (a.column == 1) {
    for (int strip = 0; strip < whole; ++strip) {
      const float* in = a.data + strip * tile_rows * a.row;
      float* to = out + strip * tile_rows * depth;
      int p = 0;
      for (; p + 8 <= depth; p += 8) {
        const Columns columns = columns_of(tile_rows, in + p, a.row);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) _mm256_storeu_ps(to + (p + i) * tile_rows, columns.at[i]);
      }
      for (; p < depth; ++p) {
        for (int i = 0; i < tile_rows; ++i) to[p * tile_rows + i] = in[i * a.row + p];
      }
    }
  } else {
    for (int strip = 0; strip < whole; strip += strips_at_once) {
      const int end = std::min(strip + strips_at_once, whole);
      for (int p = 0; p < depth; ++p) {
        const float* in = a.data + p * a.column;
        for (int at = strip; at < end; ++at)
          std::memcpy(out + (at * depth + p) * tile_rows, in + at * tile_rows, tile_rows * sizeof(float));
      }
    }
  }
  const int left = rows - whole * tile_rows;
  const Strided rest = a.from(whole * tile_rows, 0);
  float* to = out + whole * tile_rows * depth;
  for (int p = 0; p < depth; ++p) {
    for (int i = 0; i < left; ++i) to[p * left + i] = rest.data[i * rest.row + p * rest.column];
  }
}

}  // namespace

bool has_avx2_gemm() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

void avx2_gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
               int lda, const float* b, int ldb, float beta, float* c, int ldc, std::vector<float>& space) {
  const Strided all_a = stored(transpose_a, a, lda), all_b = stored(transpose_b, b, ldb);
  const int depth = depth_of_blocks(k, most_depth);
  const std::size_t size_of_a =
      static_cast<std::size_t>(std::min(m, most_rows)) * static_cast<std::size_t>(depth) + lanes;
  const auto size_of_b =
      static_cast<std::size_t>((std::min(n, most_columns) + tile_columns - 1) / tile_columns) * tile_columns *
      static_cast<std::size_t>(depth);
  if (space.size() < size_of_a + size_of_b) space.resize(size_of_a + size_of_b);
  float* const packed_a = space.data();
  float* const packed_b = packed_a + size_of_a;
  for (int column = 0; column < n; column += most_columns) {
    const int columns = std::min(most_columns, n - column);
    for (int at = 0; at < k; at += depth) {
      const int deep = std::min(depth, k - at);
      const float keep = at == 0 ? beta : 1;
      for (int j = 0; j < columns; j += tile_columns)
        pack_columns(deep, std::min(tile_columns, columns - j), all_b.from(at, column + j),
                     packed_b + j * deep);
      for (int block = 0; block < m; block += most_rows) {
        const int rows_of_block = std::min(most_rows, m - block);
        pack_rows(rows_of_block, deep, all_a.from(block, at), packed_a);
        for (int j = 0; j < columns; j += tile_columns) {
          const float* of_b = packed_b + j * deep;
          for (int row = 0; row < rows_of_block; row += tile_rows) {
            const int rows = std::min(tile_rows, rows_of_block - row);
            const float* of_a = packed_a + row * deep;
            float* out = c + static_cast<std::ptrdiff_t>(block + row) * ldc + column + j;
            if (columns - j >= tile_columns) {
              multiply_tiles[rows](deep, of_a, of_b, alpha, keep, out, ldc);
            } else {
              multiply_edge(rows, columns - j, deep, of_a, of_b, alpha, keep, out, ldc);
            }
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
