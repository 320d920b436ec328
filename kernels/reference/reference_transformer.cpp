// The operations of a transformer, computed as their definitions say.
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/reference/index.h"
#include "kernels/reference/reference_ops.h"

namespace mlk::kernels {
namespace {

constexpr double layer_norm_epsilon = 1e-5;

// The argument of tanh in GELU, and its derivative.
double gelu_inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double gelu_inner_slope(double x) { return std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x); }

double gelu(double x) { return x / 2 * (1 + std::tanh(gelu_inner(x))); }

double gelu_slope(double x) {
  const double t = std::tanh(gelu_inner(x));
  // Where tanh is saturated, the slope of x^3 may be infinite, so the term with this slope is left out.
  return (1 + t) / 2 + (t * t == 1 ? 0 : x / 2 * (1 - t * t) * gelu_inner_slope(x));
}

// One head of one sequence: where its vectors are, and the weights of its positions.
class Head {
 public:
  enum Part { query, key, value };

  Head(const AttentionShape& shape, int sequence, int head)
      : size_(shape.head_size), heads_(shape.heads), first_(sequence * shape.length), head_(head) {}

  // Offsets in qkv and its gradient, and in `out` and its gradient.
  std::size_t place(Part part, int position) const {
    return index((first_ + position) * 3 + part, heads_ * size_, head_ * size_);
  }
  std::size_t place(int position) const { return index(first_ + position, heads_ * size_, head_ * size_); }

  // query . key / sqrt(head_size).
  double score(const float* qkv, int of, int on) const {
    const float *q = qkv + place(query, of), *k = qkv + place(key, on);
    double sum = 0;
    for (int i = 0; i < size_; ++i) sum += double{q[i]} * k[i];
    return sum / std::sqrt(size_);
  }

 private:
  int size_, heads_, first_, head_;
};

void attend(const Head& head, int position, int size, const float* qkv, float* out, float& log_sum) {
  std::vector<double> weights;
  double largest = -HUGE_VAL, sum = 0;
  for (int on = 0; on <= position; ++on) {
    weights.push_back(head.score(qkv, position, on));
    largest = std::max(largest, weights.back());
  }
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (int i = 0; i < size; ++i) {
    double mean = 0;
    for (int on = 0; on <= position; ++on)
      mean += weights[static_cast<std::size_t>(on)] / sum *
              qkv[head.place(Head::value, on) + static_cast<std::size_t>(i)];
    out[head.place(position) + static_cast<std::size_t>(i)] = static_cast<float>(mean);
  }
  log_sum = static_cast<float>(largest + std::log(sum));
}

// Adds the contribution of the output of one position to the gradients of the queries, keys and values.
void attend_backward(const Head& head, int position, int size, const float* qkv, const float* out,
                     float log_sum, const float* delta, std::vector<double>& gradient) {
  const float *d = delta + head.place(position), *o = out + head.place(position);
  double mean = 0;  // the sum of weight * by_weight over the positions
  for (int i = 0; i < size; ++i) mean += double{d[i]} * o[i];
  for (int on = 0; on <= position; ++on) {
    const std::size_t q = head.place(Head::query, position), k = head.place(Head::key, on),
                      v = head.place(Head::value, on);
    const double weight = std::exp(head.score(qkv, position, on) - log_sum);
    double by_weight = 0;
    for (int n = 0; n < size; ++n) {
      const auto i = static_cast<std::size_t>(n);
      by_weight += double{d[i]} * qkv[v + i];
      gradient[v + i] += weight * d[i];
    }
    const double by_product = weight * (by_weight - mean) / std::sqrt(size);
    for (int n = 0; n < size; ++n) {
      const auto i = static_cast<std::size_t>(n);
      gradient[q + i] += by_product * qkv[k + i];
      gradient[k + i] += by_product * qkv[q + i];
    }
  }
}

}  // namespace

void ReferenceOps::add_bias_gelu(int rows, int columns, const float* bias, float* x, float* out) {
  add_bias(rows, columns, bias, x);
  for (std::size_t i = 0; i < index(rows, columns, 0); ++i) out[i] = static_cast<float>(gelu(x[i]));
}

void ReferenceOps::bias_gelu_backward(int rows, int columns, const float* x, float* delta,
                                      float* bias_gradient) {
  for (std::size_t i = 0; i < index(rows, columns, 0); ++i)
    delta[i] = static_cast<float>(delta[i] * gelu_slope(x[i]));
  bias_backward(rows, columns, delta, bias_gradient);
}

void ReferenceOps::layer_norm(int rows, int columns, const float* x, const float* weight, const float* bias,
                              float* out, float* mean, float* scale) {
  for (int row = 0; row < rows; ++row) {
    const float* in = x + index(row, columns, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < columns; ++i) sum += in[i];
    const double middle = sum / columns;
    for (int i = 0; i < columns; ++i) squares += std::pow(in[i] - middle, 2);
    const double reciprocal = 1 / std::sqrt(squares / columns + layer_norm_epsilon);
    for (int i = 0; i < columns; ++i) {
      const double normal = (in[i] - middle) * reciprocal;
      out[index(row, columns, i)] = static_cast<float>(normal * weight[i] + bias[i]);
    }
    mean[row] = static_cast<float>(middle);
    scale[row] = static_cast<float>(reciprocal);
  }
}

// With n = (x - mean) * scale and g = delta * weight, the gradient by x is (g - mean(g) - n * mean(g * n)) *
// scale, where the means are over the row.
void ReferenceOps::layer_norm_backward(int rows, int columns, const float* x, const float* weight,
                                       const float* mean, const float* scale, const float* delta,
                                       float* x_gradient, float* weight_gradient, float* bias_gradient) {
  const auto normal = [&](int row, int i) {
    return (double{x[index(row, columns, i)]} - mean[row]) * scale[row];
  };
  for (int row = 0; row < rows; ++row) {
    const auto g = [&](int i) { return double{delta[index(row, columns, i)]} * weight[i]; };
    double sum = 0, product = 0;
    for (int i = 0; i < columns; ++i) {
      sum += g(i);
      product += g(i) * normal(row, i);
    }
    for (int i = 0; i < columns; ++i) {
      x_gradient[index(row, columns, i)] +=
          static_cast<float>((g(i) - sum / columns - normal(row, i) * product / columns) * scale[row]);
    }
  }
  bias_backward(rows, columns, delta, bias_gradient);
  for (int i = 0; i < columns; ++i) {
    double sum = 0;
    for (int row = 0; row < rows; ++row) sum += double{delta[index(row, columns, i)]} * normal(row, i);
    weight_gradient[i] = static_cast<float>(sum);
  }
}

void ReferenceOps::embed(int rows, int length, int columns, const std::int32_t* tokens,
                         const float* token_table, const float* position_table, float* out) {
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < columns; ++i) {
      out[index(row, columns, i)] =
          token_table[index(tokens[row], columns, i)] + position_table[index(row % length, columns, i)];
    }
  }
}

// Adds up in float, so that the order of the sums alone determines the bits.
void ReferenceOps::embed_backward(int rows, int length, int columns, const std::int32_t* tokens,
                                  const float* delta, float* token_gradient, float* position_gradient) {
  for (std::size_t i = 0; i < index(length, columns, 0); ++i) position_gradient[i] = 0;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < columns; ++i) {
      token_gradient[index(tokens[row], columns, i)] += delta[index(row, columns, i)];
      position_gradient[index(row % length, columns, i)] += delta[index(row, columns, i)];
    }
  }
}

void ReferenceOps::attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sums) {
  for (int sequence = 0; sequence < shape.batch; ++sequence) {
    for (int h = 0; h < shape.heads; ++h) {
      float* sums = log_sums + index(sequence * shape.heads + h, shape.length, 0);
      for (int position = 0; position < shape.length; ++position)
        attend(Head(shape, sequence, h), position, shape.head_size, qkv, out, sums[position]);
    }
  }
}

void ReferenceOps::attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                                      const float* log_sums, const float* delta, float* qkv_gradient) {
  std::vector<double> gradient(
      index(3 * shape.batch * shape.length, shape.heads * shape.head_size, 0));  // zeros
  for (int sequence = 0; sequence < shape.batch; ++sequence) {
    for (int h = 0; h < shape.heads; ++h) {
      const float* sums = log_sums + index(sequence * shape.heads + h, shape.length, 0);
      for (int position = 0; position < shape.length; ++position)
        attend_backward(Head(shape, sequence, h), position, shape.head_size, qkv, out, sums[position], delta,
                        gradient);
    }
  }
  for (std::size_t i = 0; i < gradient.size(); ++i) qkv_gradient[i] = static_cast<float>(gradient[i]);
}

}  // namespace mlk::kernels
