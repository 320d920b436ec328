// Each operation, computed as its definition says. Sums of many terms are kept in double, so that the
// reference does not add rounding errors of its own.
#include "kernels/reference/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/floats.h"
#include "kernels/reference/index.h"

namespace mlk::kernels {
namespace {

// log(sum(exp(row))), computed relative to the largest logit, so that nothing overflows. max_element may
// ignore a NaN logit, but the sum then becomes NaN.
double log_sum_exp(const float* row, int classes) {
  const double largest = *std::max_element(row, row + classes);
  double sum = 0;
  for (int i = 0; i < classes; ++i) sum += std::exp(row[i] - largest);
  return largest + std::log(sum);
}

double value(float number) { return number; }
double value(BFloat16 number) { return number.value(); }

}  // namespace

template <typename Number>
void reference_gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                    const Number* a, int lda, const Number* b, int ldb, float beta, float* c, int ldc) {
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      double sum = 0;
      for (int i = 0; i < k; ++i) {
        const Number left = transpose_a == Transpose::no ? a[index(row, lda, i)] : a[index(i, lda, row)];
        const Number right =
            transpose_b == Transpose::no ? b[index(i, ldb, column)] : b[index(column, ldb, i)];
        sum += value(left) * value(right);
      }
      float& out = c[index(row, ldc, column)];
      // With beta 0, this does not read `c`, which may hold anything, even NaN.
      out = static_cast<float>(beta == 0 ? alpha * sum : alpha * sum + beta * out);
    }
  }
}

template void reference_gemm(Transpose, Transpose, int, int, int, float, const float*, int, const float*, int,
                             float, float*, int);
template void reference_gemm(Transpose, Transpose, int, int, int, float, const BFloat16*, int,
                             const BFloat16*, int, float, float*, int);

Memory ReferenceOps::allocate_bytes(std::size_t bytes) {
  Memory memory(CacheLineAllocator<std::byte>().allocate(bytes), [](void* place) {
    CacheLineAllocator<std::byte>().deallocate(static_cast<std::byte*>(place), 0);
  });
  std::memset(memory.get(), 0, bytes);
  return memory;
}

void ReferenceOps::write(std::span<const float> values, std::span<float> tensor) {
  if (values.data() != tensor.data()) std::ranges::copy(values, tensor.begin());
}

void ReferenceOps::write_tokens(std::span<const std::int32_t> values, std::span<std::int32_t> tensor) {
  std::ranges::copy(values, tensor.begin());
}

void ReferenceOps::gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha,
                        const float* a, const float* b, float beta, float* c) {
  reference_gemm(transpose_a, transpose_b, m, n, k, alpha, a, transpose_a == Transpose::yes ? m : k, b,
                 transpose_b == Transpose::yes ? k : n, beta, c, n);
}

void ReferenceOps::add_bias(int rows, int columns, const float* bias, float* x) {
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) x[index(row, columns, column)] += bias[column];
  }
}

void ReferenceOps::add_bias_relu(int rows, int columns, const float* bias, float* x) {
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      float& value = x[index(row, columns, column)];
      const float sum = value + bias[column];
      value = sum < 0 ? 0 : sum;  // written this way, NaN stays NaN and shows in the loss
    }
  }
}

void ReferenceOps::bias_backward(int rows, int columns, const float* delta, float* bias_gradient) {
  for (int column = 0; column < columns; ++column) {
    double sum = 0;
    for (int row = 0; row < rows; ++row) sum += delta[index(row, columns, column)];
    bias_gradient[column] = static_cast<float>(sum);
  }
}

void ReferenceOps::bias_relu_backward(int rows, int columns, const float* output, float* delta,
                                      float* bias_gradient) {
  const std::size_t size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  for (std::size_t i = 0; i < size; ++i) {
    if (!(output[i] > 0)) delta[i] = 0;
  }
  bias_backward(rows, columns, delta, bias_gradient);
}

float ReferenceOps::softmax_cross_entropy(int rows, int classes, const float* logits,
                                          const std::int32_t* labels) {
  double loss = 0;
  for (int row = 0; row < rows; ++row) {
    const float* x = logits + index(row, classes, 0);
    loss += log_sum_exp(x, classes) - x[labels[row]];
  }
  return rows == 0 ? 0 : static_cast<float>(loss / rows);
}

void ReferenceOps::softmax_cross_entropy_backward(int rows, int classes, const float* logits,
                                                  const std::int32_t* labels, float* delta, float* loss) {
  double sum = 0;
  for (int row = 0; row < rows; ++row) {
    const float* x = logits + index(row, classes, 0);
    float* out = delta + index(row, classes, 0);
    const double norm = log_sum_exp(x, classes);
    sum += norm - x[labels[row]];
    for (int i = 0; i < classes; ++i) {
      const double probability = std::exp(x[i] - norm);
      out[i] = static_cast<float>((probability - (i == labels[row] ? 1 : 0)) / rows);
    }
  }
  *loss = rows == 0 ? 0 : static_cast<float>(sum / rows);
}

std::int64_t ReferenceOps::count_correct(int rows, int classes, const float* logits,
                                         const std::int32_t* labels) {
  std::int64_t correct = 0;
  for (int row = 0; row < rows; ++row) {
    const float* x = logits + index(row, classes, 0);
    if (std::max_element(x, x + classes) - x == labels[row]) ++correct;
  }
  return correct;
}

// The update rules in float, step by step: every processor has to give exactly these bits.
void ReferenceOps::sgd(std::span<float> parameters, std::span<const float> gradients,
                       std::span<float> velocity, const SgdStep& step, BFloat16*) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float g = gradients[i] + step.weight_decay * parameters[i];
    velocity[i] = step.momentum * velocity[i] + g;
    parameters[i] -= step.lr * (step.nesterov ? g + step.momentum * velocity[i] : velocity[i]);
  }
}

void ReferenceOps::adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
                        std::span<float> square, const AdamStep& step, BFloat16*) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float g = gradients[i] + step.l2 * parameters[i];
    mean[i] = step.beta1 * mean[i] + step.one_minus_beta1 * g;
    square[i] = step.beta2 * square[i] + step.one_minus_beta2 * (g * g);
    const float direction = mean[i] / (std::sqrt(square[i]) + step.epsilon);
    parameters[i] -= step.decay * parameters[i] + step.lr * direction;
  }
}

void ReferenceOps::clip(std::span<float> gradients, float most) {
  double squares = 0;
  for (const float x : gradients) squares += static_cast<double>(x) * static_cast<double>(x);
  const double norm = std::sqrt(squares);
  if (norm <= static_cast<double>(most)) return;
  // For an infinite norm the factor is NaN, not 0, so that a diverged model is noticed.
  const double factor = std::isfinite(norm) ? static_cast<double>(most) / norm : std::nan("");
  for (float& x : gradients) x *= static_cast<float>(factor);
}

void ReferenceOps::dropout(const DropoutMask& mask, std::span<const float> x, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = mask.keeps(mask.first + i) ? mask.factor() * x[i] : 0;
}

void ReferenceOps::scale(float factor, std::span<const float> x, std::span<float> out) {
  // With factor 0, this does not read x, which may hold anything, even NaN.
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = factor == 0 ? 0 : factor * x[i];
}

void ReferenceOps::add_scaled(std::span<const float> x, float factor, std::span<const float> y,
                              std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = x[i] + factor * y[i];
}

void ReferenceOps::gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table,
                               float scale, float* out) {
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::size_t i = 0; i < width; ++i)
      out[row * width + i] = static_cast<float>(table[ids[row] * width + i]) * scale;
  }
}

void ReferenceOps::gather_labels(std::span<const std::uint64_t> ids, const std::uint8_t* table,
                                 std::int32_t* out) {
  for (std::size_t i = 0; i < ids.size(); ++i) out[i] = table[ids[i]];
}

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace mlk::kernels
