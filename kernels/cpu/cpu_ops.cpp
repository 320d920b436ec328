// Ops for CPUs. Matrices: oneDNN or our own product, whichever is faster. Elementwise work: our own vector
// loops. The rest: the reference. Large operations are cut into parts for several threads.
#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <dlfcn.h>
#include <numeric>
#include <vector>

#ifndef MLK_ONEDNN
#define MLK_ONEDNN 0
#endif
#if MLK_ONEDNN
#include <dnnl.h>
#endif

#include "kernels/cpu/avx2_gemm.h"
#include "kernels/cpu/avx512_gemm.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/reference/reference_ops.h"

namespace mlk::kernels {
namespace {

// A part should take so long that waking a thread for it, which may take a hundred microseconds, matters
// little.
constexpr double least_operations = 16e6;
constexpr std::size_t least_floats = 64 * 1024;

bool is_from_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

class CpuOps final : public ReferenceOps {
 public:
  CpuOps(int threads, Precision precision)
      : precision_(precision),
        pool_(threads),
        loops_(vector_loops().front()),
        packing_(static_cast<std::size_t>(threads)) {}

  std::string_view name() const override { return MLK_ONEDNN ? "onednn" : "cpu"; }
  void gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
            const float* b, float beta, float* c) override;

  void add_bias(int rows, int columns, const float* bias, float* x) override {
    loops_.add_bias(rows, columns, bias, x);
  }
  void add_bias_relu(int rows, int columns, const float* bias, float* x) override {
    loops_.add_bias_relu(rows, columns, bias, x);
  }
  void bias_backward(int rows, int columns, const float* delta, float* bias_gradient) override {
    loops_.bias_backward(rows, columns, delta, bias_gradient);
  }
  void bias_relu_backward(int rows, int columns, const float* output, float* delta,
                          float* bias_gradient) override {
    loops_.bias_relu_backward(rows, columns, output, delta, bias_gradient);
  }
  float softmax_cross_entropy_backward(int rows, int classes, const float* logits, const std::int32_t* labels,
                                       float* delta) override;
  void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> velocity,
           const SgdStep& step) override {
    by_range(parameters.size(), [&](std::size_t at, std::size_t size) {
      loops_.sgd(size, parameters.data() + at, gradients.data() + at, velocity.data() + at, step);
    });
  }
  void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
            std::span<float> square, const AdamStep& step) override {
    by_range(parameters.size(), [&](std::size_t at, std::size_t size) {
      loops_.adam(size, parameters.data() + at, gradients.data() + at, mean.data() + at, square.data() + at,
                  step);
    });
  }
  void scale(float factor, std::span<const float> x, std::span<float> out) override {
    by_range(out.size(), [&](std::size_t at, std::size_t size) {
      loops_.scale(size, factor, x.data() + at, out.data() + at);
    });
  }
  void add_scaled(std::span<const float> x, float factor, std::span<const float> y,
                  std::span<float> out) override {
    by_range(out.size(), [&](std::size_t at, std::size_t size) {
      loops_.add_scaled(size, x.data() + at, factor, y.data() + at, out.data() + at);
    });
  }
  void gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table, float scale,
                   float* out) override;

 private:
  // Calls work(part, parts) for each part.
  template <typename Work>
  void in_parts(double most, Work work) {
    const int parts = std::clamp(static_cast<int>(std::min(most, 1e6)), 1, pool_.threads());
    if (parts == 1) return work(0, 1);
    pool_.run(parts, [&](int part) { work(part, parts); });
  }
  // Calls work(at, size) for ranges that together cover [0, size).
  template <typename Work>
  void by_range(std::size_t size, Work work) {
    in_parts(static_cast<double>(size / least_floats), [&](std::size_t part, std::size_t parts) {
      const std::size_t begin = size * part / parts, end = size * (part + 1) / parts;
      work(begin, end - begin);
    });
  }

  template <typename Number>
  void product(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
               const Number* a, const Number* b, float beta, float* c);

  const Precision precision_;
  ThreadPool pool_;
  const VectorLoops& loops_;
  std::vector<BFloat16> rounded_[2];  // the inputs of a product, rounded; these grow once
  std::vector<float> imitated_[2];
  std::vector<std::vector<float>> packing_;  // one for each part of our own products
};

// All exponentials are computed at once, because rows of few classes are too short for vectors.
float CpuOps::softmax_cross_entropy_backward(int rows, int classes, const float* logits,
                                             const std::int32_t* labels, float* delta) {
  const auto count = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(classes);
  double loss = 0;
  for (std::size_t row = 0; row < count; ++row) {
    const float* x = logits + row * width;
    const float largest = *std::max_element(x, x + width);
    loss -= static_cast<double>(x[labels[row]]) - static_cast<double>(largest);
    for (std::size_t i = 0; i < width; ++i) delta[row * width + i] = x[i] - largest;
  }
  loops_.exponentials(count * width, delta);
  for (std::size_t row = 0; row < count; ++row) {
    float* out = delta + row * width;
    const double sum = std::accumulate(out, out + width, 0.0);
    loss += std::log(sum);
    const auto scale = static_cast<float>(1 / (sum * rows));
    for (std::size_t i = 0; i < width; ++i) out[i] *= scale;
    out[labels[row]] -= 1.0f / static_cast<float>(rows);
  }
  return rows == 0 ? 0 : static_cast<float>(loss / rows);
}

// Rows lie anywhere in memory, and the processor cannot guess the next one: it is asked to fetch a few ahead.
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

#if MLK_ONEDNN

// Limits oneDNN to one thread. oneDNN uses as many threads as its OpenMP offers and has no setting of its
// own, so OpenMP's limit is set, which counts per calling thread. The function is looked up at run time,
// since oneDNN decides which OpenMP it uses, if any.
// It is set for every call, which costs nanoseconds: with a thread_local variable, mold 1.10 lays out some
// programs so that they cannot be loaded.
void keep_to_this_thread() {
  using SetNumThreads = void (*)(int);
  static const auto set = reinterpret_cast<SetNumThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) set(1);
}

// oneDNN exports this beside dnnl_sgemm, but declares it in no header.
using BFloat16Gemm = dnnl_status_t (*)(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float, const BFloat16*,
                                       dnnl_dim_t, const BFloat16*, dnnl_dim_t, float, float*, dnnl_dim_t);

BFloat16Gemm bfloat16_gemm() {
#if defined(__x86_64__)
  // With AVX-512 alone oneDNN accepts them too, but widens them first.
  static const bool has = __builtin_cpu_supports("avx512bf16");
  static const auto gemm = reinterpret_cast<BFloat16Gemm>(dlsym(RTLD_DEFAULT, "dnnl_gemm_bf16bf16f32"));
  return has ? gemm : nullptr;
#else
  return nullptr;
#endif
}

bool multiply(char ta, char tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
              int ldb, float beta, float* c, int ldc) {
  keep_to_this_thread();
  return dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}
bool multiply(char ta, char tb, int m, int n, int k, float alpha, const BFloat16* a, int lda,
              const BFloat16* b, int ldb, float beta, float* c, int ldc) {
  keep_to_this_thread();
  return bfloat16_gemm()(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}

#else

template <typename... Arguments>
bool multiply(Arguments...) {
  return false;
}

#endif

void CpuOps::gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                  const float* a, const float* b, float beta, float* c) {
  if (precision_ == Precision::float32)
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

// Measured: with AVX-512, oneDNN 2.6 is up to 5 % faster where stored rows are a multiple of 4 KiB apart, and
// ours up to 10 % faster elsewhere (AMD Zen 5). Intel's processors are left to oneDNN. With AVX2 alone ours
// is as fast or faster, most where rows are a multiple of 1 or 2 KiB apart: oneDNN does not pack some of
// those, and they compete for a few places in L1 (AMD Zen 3).
decltype(&avx2_gemm) own_gemm(int lda, int ldb) {
  constexpr int four_kib = 1024;  // counted in numbers
  const bool four_kib_apart = lda % four_kib == 0 || ldb % four_kib == 0;
  if (has_avx512_gemm() && !(MLK_ONEDNN && (four_kib_apart || is_from_intel()))) return avx512_gemm;
  if (has_avx2_gemm() && !(MLK_ONEDNN && has_avx512_gemm())) return avx2_gemm;
  return nullptr;
}

// Cuts along the longer side of c, at the beginning of a cache line.
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
    float* of_c = c + row * n + column;
    const bool empty = rows == 0 || columns == 0 || k == 0;  // oneDNN refuses leading dimensions of 0
    if constexpr (std::is_same_v<Number, float>) {
      if (const auto own = own_gemm(lda, ldb); own && !empty) {
        return own(transpose_a, transpose_b, rows, columns, k, alpha, of_a, lda, of_b, ldb, beta, of_c, n,
                   packing_[static_cast<std::size_t>(part)]);
      }
    }
    if (empty || !multiply(ta ? 'T' : 'N', tb ? 'T' : 'N', rows, columns, k, alpha, of_a, lda, of_b, ldb,
                           beta, of_c, n)) {
      reference_gemm(transpose_a, transpose_b, rows, columns, k, alpha, of_a, lda, of_b, ldb, beta, of_c, n);
    }
  });
}

}  // namespace

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
