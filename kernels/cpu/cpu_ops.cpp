// Matrices are multiplied by oneDNN or by our own code, whichever is faster. Most other operations use our
// own vector loops, and the remaining few are those of ReferenceOps. Large operations are cut into parts for
// several threads.
#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <dlfcn.h>
#include <numeric>
#include <vector>

#include "kernels/cpu/avx2_gemm.h"
#include "kernels/cpu/avx512_gemm.h"
#include "kernels/cpu/cpu_ops_class.h"
#include "kernels/cpu/watched.h"
#include "kernels/reference/reference_ops.h"

#if MLK_ONEDNN
#include <dnnl.h>
#endif

namespace mlk::kernels {
namespace {

bool is_from_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// These rules come from measurements. With AVX-512, oneDNN 2.6 is up to 5 % faster where stored rows are a
// multiple of 4 KiB apart, and our product is up to 10 % faster elsewhere (AMD Zen 5). On Intel's processors
// with AVX-512, oneDNN computes all products. With AVX2 alone, our product is at least as fast as oneDNN. Our
// product gains most where rows are a multiple of 1 or 2 KiB apart: oneDNN does not pack some of these
// matrices, so their rows compete for a few places in L1 (AMD Zen 3).
decltype(&avx2_gemm) own_gemm(int lda, int ldb) {
  constexpr int four_kib = 1024;  // counted in numbers
  const bool four_kib_apart = lda % four_kib == 0 || ldb % four_kib == 0;
  if (has_avx512_gemm() && !(MLK_ONEDNN && (four_kib_apart || is_from_intel()))) return avx512_gemm;
  if (has_avx2_gemm() && !(MLK_ONEDNN && has_avx512_gemm())) return avx2_gemm;
  return nullptr;
}

}  // namespace

// The squares are added up in blocks of a fixed size, so that the number of threads does not change the bits.
void CpuOps::clip(std::span<float> gradients, float most) {
  const std::size_t blocks = (gradients.size() + least_floats - 1) / least_floats;
  std::vector<double> squares(blocks);
  in_parts(static_cast<double>(blocks) / 2, [&](std::size_t part, std::size_t parts) {
    for (std::size_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
      const std::size_t at = block * least_floats;
      squares[block] =
          layers_.sum_of_squares(std::min(least_floats, gradients.size() - at), gradients.data() + at);
    }
  });
  const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  if (norm <= static_cast<double>(most)) return;
  // For an infinite norm the factor is NaN, not 0, so that a diverged model is noticed.
  scale(std::isfinite(norm) ? static_cast<float>(static_cast<double>(most) / norm) : std::nanf(""), gradients,
        gradients);
}

// Rows lie anywhere in memory, and the processor cannot predict the next row, so the loop prefetches a few
// rows ahead.
void CpuOps::gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table,
                         float scale, float* out) {
  constexpr std::size_t ahead = 4, cache_line = 64;
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + ahead < ids.size()) {
      const std::uint8_t* next = table + ids[i + ahead] * width;
      for (std::size_t byte = 0; byte < width; byte += cache_line) __builtin_prefetch(next + byte);
    }
    loops_.scale_bytes(width, table + ids[i] * width, scale, out + i * width);
  }
}

namespace {

#if MLK_ONEDNN

// Limits oneDNN to one thread. oneDNN uses as many threads as its OpenMP offers and has no setting of its
// own, so this function sets OpenMP's limit, which applies to the calling thread only. OpenMP's function is
// looked up at run time, since oneDNN decides which OpenMP it uses, if any. The limit is set again for every
// call, which costs nanoseconds. A thread_local variable would avoid that, but with such a variable mold 1.10
// lays out some programs so that they cannot be loaded.
void limit_to_one_thread() {
  using SetNumThreads = void (*)(int);
  static const auto set = reinterpret_cast<SetNumThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) set(1);
}

// oneDNN exports this function beside dnnl_sgemm, but declares it in no header.
using BFloat16Gemm = dnnl_status_t (*)(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float, const BFloat16*,
                                       dnnl_dim_t, const BFloat16*, dnnl_dim_t, float, float*, dnnl_dim_t);

BFloat16Gemm bfloat16_gemm() {
#if defined(__x86_64__)
  // With AVX-512 but without AVX512-BF16, oneDNN accepts bfloat16, but converts the numbers to float32 first.
  static const bool has = __builtin_cpu_supports("avx512bf16");
  static const auto gemm = reinterpret_cast<BFloat16Gemm>(dlsym(RTLD_DEFAULT, "dnnl_gemm_bf16bf16f32"));
  return has ? gemm : nullptr;
#else
  return nullptr;
#endif
}

bool multiply(char ta, char tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
              int ldb, float beta, float* c, int ldc) {
  limit_to_one_thread();
  return dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}
bool multiply(char ta, char tb, int m, int n, int k, float alpha, const BFloat16* a, int lda,
              const BFloat16* b, int ldb, float beta, float* c, int ldc) {
  limit_to_one_thread();
  return bfloat16_gemm()(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}

#else

template <typename... Arguments>
bool multiply(Arguments...) {
  return false;
}

#endif

}  // namespace

void CpuOps::gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                  const float* a, const float* b, float beta, float* c) {
  if (precision_ != Precision::bfloat16)
    return product(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n),
             inner = static_cast<std::size_t>(k);
  const auto round = [&](auto loop, std::size_t size, const float* in, auto& out) {
    if (out.size() < size) out.resize(size);
    by_range(size, [&](std::size_t at, std::size_t part) { loop(part, in + at, out.data() + at); });
    return out.data();
  };
  const auto multiply_rounded = [&](auto loop, auto& out) {
    const auto* of_a = round(loop, rows * inner, a, out[0]);
    const auto* of_b = round(loop, inner * columns, b, out[1]);
    product(transpose_a, transpose_b, m, n, k, alpha, of_a, of_b, beta, c);
  };
  if (multiplies_bfloat16()) {
    multiply_rounded(loops_.round_to_bfloat16, rounded_);
  } else {
    multiply_rounded(loops_.round_like_bfloat16, imitated_);
  }
}

// Cuts the longer side of c into parts, each of which begins at a multiple of 16 rows or columns.
template <typename Number>
void CpuOps::product(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                     const Number* a, const Number* b, float beta, float* c) {
  constexpr int unit = 16;
  const bool ta = transpose_a == Transpose::yes, tb = transpose_b == Transpose::yes, by_rows = m >= n;
  const int lda = ta ? m : k, ldb = tb ? k : n, side = by_rows ? m : n, units = (side + unit - 1) / unit;
  in_parts(std::min<double>(units, 2.0 * m * n * k / least_operations), [&](int part, int parts) {
    const int begin = units * part / parts * unit, end = std::min(units * (part + 1) / parts * unit, side);
    const int rows = by_rows ? end - begin : m, columns = by_rows ? n : end - begin;
    const std::ptrdiff_t row = by_rows ? begin : 0, column = by_rows ? 0 : begin;
    const Number* of_a = a + (ta ? row : row * lda);
    const Number* of_b = b + (tb ? column * ldb : column);
    multiply_alone(part, transpose_a, transpose_b, rows, columns, k, alpha, of_a, lda, of_b, ldb, beta,
                   c + row * n + column, n);
  });
}

template <typename Number>
void CpuOps::multiply_alone(int part, Transpose transpose_a, Transpose transpose_b, int m, int n, int k,
                            float alpha, const Number* a, int lda, const Number* b, int ldb, float beta,
                            float* c, int ldc) {
  const bool ta = transpose_a == Transpose::yes, tb = transpose_b == Transpose::yes;
  const bool empty = m == 0 || n == 0 || k == 0;  // oneDNN refuses leading dimensions of 0
  if constexpr (std::is_same_v<Number, float>) {
    if (const auto own = own_gemm(lda, ldb); own && !empty) {
      for (int row = 0; row < (ta ? k : m); ++row) reads(a + std::ptrdiff_t{row} * lda, ta ? m : k);
      for (int row = 0; row < (tb ? n : k); ++row) reads(b + std::ptrdiff_t{row} * ldb, tb ? k : n);
      for (int row = 0; row < m; ++row) writes(c + std::ptrdiff_t{row} * ldc, n);
      return own(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                 packing_[static_cast<std::size_t>(part)]);
    }
  }
  if (empty || !multiply(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
    reference_gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template void CpuOps::multiply_alone(int, Transpose, Transpose, int, int, int, float, const float*, int,
                                     const float*, int, float, float*, int);

std::unique_ptr<Ops> make_cpu_ops(int threads, Precision precision) {
  return std::make_unique<CpuOps>(threads, precision);
}

bool multiplies_bfloat16() {
#if MLK_ONEDNN
  return bfloat16_gemm() != nullptr;
#else
  return false;
#endif
}

}  // namespace mlk::kernels
