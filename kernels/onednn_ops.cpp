// Ops for CPUs: matrices by oneDNN, elementwise work by our own vector loops, the little that is left by the
// reference.
#include <algorithm>
#include <cmath>
#include <dlfcn.h>
#include <numeric>

#if MLK_ONEDNN
#include <dnnl.h>
#endif

#include "kernels/reference_ops.h"
#include "kernels/vector_loops.h"

namespace mlk::kernels {
namespace {

class CpuOps final : public ReferenceOps {
 public:
  explicit CpuOps(int threads) : threads_(threads), loops_(vector_loops().front()) {}

#if MLK_ONEDNN
  std::string_view name() const override { return "onednn"; }
  void gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
            const float* b, float beta, float* c) override;
#else
  std::string_view name() const override { return "cpu"; }
#endif

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
    loops_.sgd(parameters.size(), parameters.data(), gradients.data(), velocity.data(), step);
  }
  void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
            std::span<float> square, const AdamStep& step) override {
    loops_.adam(parameters.size(), parameters.data(), gradients.data(), mean.data(), square.data(), step);
  }
  void accumulate(std::span<const float> x, std::span<float> sum) override {
    loops_.accumulate(sum.size(), x.data(), sum.data());
  }

 private:
  int threads_;
  const VectorLoops& loops_;
};

// All exponentials at once, because rows of few classes are too short for vectors.
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

#if MLK_ONEDNN

// oneDNN takes as many threads as its OpenMP offers, which is all processors, and has no setting of its own.
// OpenMP's is per calling thread. It is looked up, not linked: which OpenMP it is, is oneDNN's choice, and a
// oneDNN without any has none to limit.
// Set every time, which costs nanoseconds: with a variable per thread, mold 1.10 lays out some programs so
// that they cannot be loaded.
void limit_threads(int threads) {
  using SetNumThreads = void (*)(int);
  static const auto set = reinterpret_cast<SetNumThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) set(threads);
}

void CpuOps::gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                  const float* a, const float* b, float beta, float* c) {
  limit_threads(threads_);
  const bool ta = transpose_a == Transpose::yes, tb = transpose_b == Transpose::yes;
  const bool empty = m == 0 || n == 0 || k == 0;  // leading dimensions of 0 are refused
  if (empty || dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, ta ? m : k, b, tb ? k : n, beta,
                          c, n) != dnnl_success) {
    ReferenceOps::gemm(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
  }
}

#endif

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(int threads) { return std::make_unique<CpuOps>(threads); }

}  // namespace mlk::kernels
