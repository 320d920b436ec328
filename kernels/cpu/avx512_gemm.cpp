// A tile of up to 14 x 32 sums is in registers. A panel of 32 columns of `b` stays in L1 while it is
// multiplied by the rows of `a` (K. Goto and R. van de Geijn, TOMS 34, 2008). Unlike in that paper, `a` is
// not packed: each number of `a` is read once for 32 columns, so its place in memory hardly matters. A panel
// of `b` is packed only if it has to be transposed or filled up to whole vectors.
#include "kernels/cpu/avx512_gemm.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/strided.h"
#include "kernels/cpu/watched.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define MLK_AVX512 [[gnu::target("avx512f")]] MLK_UNWATCHED
#define MLK_AVX512_INLINE [[gnu::target("avx512f"), gnu::always_inline]] inline

namespace mlk::kernels {
namespace {

constexpr int lanes = 16, tile_rows = 14, tile_columns = 2 * lanes;
constexpr int most_depth = 256;             // of a panel, which then has 32 KiB
constexpr int most_rows = 512;              // of a block of `a`, which then fits into L2
constexpr int most_transposed = 64 * 1024;  // numbers of a result that is computed transposed

constexpr __mmask16 first(int numbers) { return static_cast<__mmask16>((1u << numbers) - 1); }

constexpr __mmask16 all = first(lanes);

int in_whole_vectors(int columns) { return (columns + lanes - 1) / lanes * lanes; }

// The operands of c[rows, columns] = alpha * a[rows, depth] * b[depth, columns] + beta * c, and the distances
// between the rows of b and of c.
struct Panel {
  int depth;
  const float* b;  // each row has whole vectors
  std::ptrdiff_t b_row;
  __mmask16 last;  // which numbers of the last vector of a row belong to c
  std::ptrdiff_t c_row;
  float alpha, beta;
};

// The loops are unrolled completely, so that the sums stay in registers.
template <int rows, int vectors>
MLK_AVX512_INLINE void multiply_tile(const Panel& panel, Strided tile, float* c) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  const float *a = tile.data, *b = panel.b;
  const std::ptrdiff_t a_row = tile.row, a_column = tile.column, b_row = panel.b_row, c_row = panel.c_row;
  for (int p = panel.depth; p > 0; --p, a += a_column, b += b_row) {
    __m512 right[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) right[j] = _mm512_loadu_ps(b + j * lanes);
#pragma GCC unroll 14
    for (int i = 0; i < rows; ++i) {
      const __m512 factor = _mm512_set1_ps(a[i * a_row]);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sums[i][j] = _mm512_fmadd_ps(factor, right[j], sums[i][j]);
    }
  }
  if (panel.alpha != 1) {
    const __m512 alpha = _mm512_set1_ps(panel.alpha);
#pragma GCC unroll 14
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sums[i][j] = _mm512_mul_ps(alpha, sums[i][j]);
    }
  }
  if (panel.beta != 0) {
    const __m512 beta = _mm512_set1_ps(panel.beta);
#pragma GCC unroll 14
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) {
        const __mmask16 there = j + 1 < vectors ? all : panel.last;
        const __m512 before = _mm512_maskz_loadu_ps(there, c + i * c_row + j * lanes);
        sums[i][j] = _mm512_fmadd_ps(beta, before, sums[i][j]);
      }
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i, c += c_row) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      if (j + 1 < vectors || panel.last == all) {
        _mm512_storeu_ps(c + j * lanes, sums[i][j]);
      } else {
        _mm512_mask_storeu_ps(c + j * lanes, panel.last, sums[i][j]);
      }
    }
  }
}

template <int rows, int vectors>
MLK_AVX512 void multiply_one(const Panel& panel, Strided a, float* c) {
  multiply_tile<rows, vectors>(panel, a, c);
}

constexpr auto up_to_tile_rows = std::make_integer_sequence<int, tile_rows>();

// The functions multiply_one. The index is the number of rows, minus 1.
template <int vectors>
constexpr auto tiles = []<int... less>(std::integer_sequence<int, less...>) {
  return std::array{multiply_one<less + 1, vectors>...};
}(up_to_tile_rows);

// Multiplies the rows in tiles of `height` rows. The remaining rows form one tile with fewer rows.
template <int height, int vectors>
MLK_AVX512 void multiply_panel(const Panel& panel, int rows, Strided a, float* c) {
  for (; rows >= height; rows -= height, a = a.from(height, 0), c += height * panel.c_row)
    multiply_tile<height, vectors>(panel, a, c);
  if (rows > 0) tiles<vectors>[static_cast<std::size_t>(rows - 1)](panel, a, c);
}

// The functions multiply_panel. The index is the height, minus 1.
template <int vectors>
constexpr auto panels = []<int... less>(std::integer_sequence<int, less...>) {
  return std::array{multiply_panel<less + 1, vectors>...};
}(up_to_tile_rows);

// Four vectors for up to 16 lines: vector i has element i of every line, and zeros for missing lines.
struct Four {
  __m512 at[4];
};
template <bool all_lines>
MLK_AVX512_INLINE Four turn(int lines, const float* in, std::ptrdiff_t line_row) {
  __m512 fours[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    fours[i] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int group = 0; group < 4; ++group) {
      const int line = 4 * group + i;
      if (!all_lines && line >= lines) continue;
      const auto here = static_cast<__mmask16>(0xf << (4 * group));
      fours[i] = _mm512_mask_broadcast_f32x4(fours[i], here, _mm_loadu_ps(in + line * line_row));
    }
  }
  // Uses the masked form, because for the other forms GCC 12 warns of an uninitialised value in its own
  // header.
  const __m512 low_01 = _mm512_maskz_unpacklo_ps(all, fours[0], fours[1]);
  const __m512 low_23 = _mm512_maskz_unpacklo_ps(all, fours[2], fours[3]);
  const __m512 high_01 = _mm512_maskz_unpackhi_ps(all, fours[0], fours[1]);
  const __m512 high_23 = _mm512_maskz_unpackhi_ps(all, fours[2], fours[3]);
  return {_mm512_maskz_shuffle_ps(all, low_01, low_23, 0x44),
          _mm512_maskz_shuffle_ps(all, low_01, low_23, 0xee),
          _mm512_maskz_shuffle_ps(all, high_01, high_23, 0x44),
          _mm512_maskz_shuffle_ps(all, high_01, high_23, 0xee)};
}

// out[depth, lines] = the transpose of in[lines, depth], for at most 16 lines. The mask `stored` selects the
// numbers of each vector that are written. Selected numbers beyond the lines become 0.
template <bool all_lines>
MLK_AVX512 void turn_lines(int lines, int depth, const float* in, std::ptrdiff_t in_row, __mmask16 stored,
                           float* out, std::ptrdiff_t out_row) {
  int p = 0;
  for (; p + 4 <= depth; p += 4) {
    const Four four = turn<all_lines>(lines, in + p, in_row);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) _mm512_mask_storeu_ps(out + (p + i) * out_row, stored, four.at[i]);
  }
  for (; p < depth; ++p) {
    for (int i = 0; i < lanes; ++i) {
      if (stored >> i & 1) out[p * out_row + i] = i < lines ? in[i * in_row + p] : 0;
    }
  }
}

MLK_AVX512 void turn_lines(int lines, int depth, const float* in, std::ptrdiff_t in_row, __mmask16 stored,
                           float* out, std::ptrdiff_t out_row) {
  (lines == lanes ? turn_lines<true> : turn_lines<false>)(lines, depth, in, in_row, stored, out, out_row);
}

// out[depth, columns] = b[depth, columns], filled up with zeros to whole vectors.
MLK_AVX512 void pack(int depth, int columns, Strided b, float* out) {
  const std::ptrdiff_t out_row = in_whole_vectors(columns);
  for (; columns > 0; columns -= lanes, b = b.from(0, lanes), out += lanes) {
    const int here = std::min(columns, lanes);
    if (b.column == 1) {
      for (int p = 0; p < depth; ++p)
        _mm512_storeu_ps(out + p * out_row, _mm512_maskz_loadu_ps(first(here), b.data + p * b.row));
    } else {
      turn_lines(here, depth, b.data, b.column, first(lanes), out, out_row);
    }
  }
}

float* at_cache_line(float* data) {
  constexpr std::uintptr_t line = 64;
  const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(data) % line;
  const std::size_t floats_to_line = (line - behind) % line / sizeof(float);
  return data + floats_to_line;
}

// Makes the heights of the tiles as equal as possible, because tiles with few rows are slow.
int height_of_tiles(int rows) {
  const int count = (rows + tile_rows - 1) / tile_rows;
  return (rows + count - 1) / count;
}

// packed: starts at the beginning of a cache line, and has room for one panel.
void multiply(int m, int n, int k, float alpha, Strided a, Strided b, float beta, float* c, int ldc,
              float* packed) {
  const int depth = depth_of_blocks(k, most_depth);
  for (int at = 0; at < k; at += depth) {
    const int deep = std::min(depth, k - at);
    for (int row = 0; row < m; row += most_rows) {
      const int rows = std::min(most_rows, m - row);
      const auto height = static_cast<std::size_t>(height_of_tiles(rows) - 1);
      for (int column = 0; column < n; column += tile_columns) {
        const int columns = std::min(tile_columns, n - column), width = in_whole_vectors(columns);
        Strided of_b = b.from(at, column);
        if (of_b.column != 1 || columns != width) {
          pack(deep, columns, of_b, packed);
          of_b = {packed, width, 1};
        }
        const Panel panel{.depth = deep,
                          .b = of_b.data,
                          .b_row = of_b.row,
                          .last = first(columns - width + lanes),
                          .c_row = ldc,
                          .alpha = alpha,
                          .beta = at == 0 ? beta : 1};
        (width == lanes ? panels<1> : panels<2>)[height](panel, rows, a.from(row, at),
                                                         c + static_cast<std::ptrdiff_t>(row) * ldc + column);
      }
    }
  }
}

}  // namespace

bool has_avx512_gemm() { return __builtin_cpu_supports("avx512f"); }

void avx512_gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc,
                 std::vector<float>& space) {
  const Strided all_a = stored(transpose_a, a, lda), all_b = stored(transpose_b, b, ldb);
  // multiply() has to pack its right factor if the numbers of this factor follow each other along k.
  // Sometimes this is so for both matrices. If `a` is then also smaller than `b`, and the result is small,
  // multiply() computes the transposed result: then `a` is the right factor, and less has to be packed.
  const bool transposed =
      all_a.column == 1 && all_b.row == 1 && m < n && n <= most_transposed / m && beta == 0;
  const std::size_t size_of_panel =
      static_cast<std::size_t>(depth_of_blocks(k, most_depth)) * static_cast<std::size_t>(tile_columns);
  const std::size_t size_of_result =
      transposed ? static_cast<std::size_t>(m) * static_cast<std::size_t>(n) : 0;
  const std::size_t size = lanes + size_of_panel + size_of_result;
  if (space.size() < size) space.resize(size);
  float* const packed = at_cache_line(space.data());
  if (!transposed) return multiply(m, n, k, alpha, all_a, all_b, beta, c, ldc, packed);
  float* const result = packed + size_of_panel;
  multiply(n, m, k, alpha, {all_b.data, all_b.column, all_b.row}, {all_a.data, all_a.column, all_a.row}, 0,
           result, m, packed);
  for (int column = 0; column < n; column += lanes) {
    const int columns = std::min(lanes, n - column);
    turn_lines(columns, m, result + column * m, m, first(columns), c + column, ldc);
  }
}

}  // namespace mlk::kernels

#else

namespace mlk::kernels {

bool has_avx512_gemm() { return false; }
void avx512_gemm(Transpose, Transpose, int, int, int, float, const float*, int, const float*, int, float,
                 float*, int, std::vector<float>&) {}

}  // namespace mlk::kernels

#endif
