// The operations of a transformer on processors: vector loops over rows, and attention from products.
#include <cmath>

#include "kernels/cpu/cpu_ops_class.h"

namespace mlk::kernels {
namespace {

// The places of the vectors of one head of one sequence. A vector has head_size numbers.
struct HeadPlaces {
  HeadPlaces(const AttentionShape& shape, int head_of_all)
      : sequence(static_cast<std::size_t>(head_of_all / shape.heads)),
        head(static_cast<std::size_t>(head_of_all % shape.heads)),
        size(static_cast<std::size_t>(shape.head_size)),
        length(static_cast<std::size_t>(shape.length)),
        width(static_cast<std::size_t>(shape.heads) * size) {}

  // The offset in qkv and its gradient, whose rows have 3 * width numbers. part: 0 queries, 1 keys, 2 values.
  std::size_t in_qkv(std::size_t part, int position) const {
    return ((sequence * length + static_cast<std::size_t>(position)) * 3 + part) * width + head * size;
  }
  // The offset in the output and its gradient, whose rows have `width` numbers.
  std::size_t in_out(int position) const {
    return (sequence * length + static_cast<std::size_t>(position)) * width + head * size;
  }

  std::size_t sequence, head, size, length, width;
};

// How many queries are computed together: enough for fast products, but not more, because products beyond the
// diagonal are wasted.
constexpr int queries_at_once = 64;

// The number of operations if no position is left out: one half is for the scores of all heads, and the other
// half for the means of the values.
double products_of(const AttentionShape& shape) {
  return 4.0 * shape.batch * shape.heads * shape.length * shape.length * shape.head_size;
}

}  // namespace

void CpuOps::add_bias_gelu(int rows, int columns, const float* bias, float* x, float* out) {
  by_rows(rows, columns, [&](int row, int count) {
    const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(columns);
    layers_.add_bias_gelu(count, columns, bias, x + at, out + at);
  });
}

void CpuOps::bias_gelu_backward(int rows, int columns, const float* x, float* delta, float* bias_gradient) {
  by_range(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns),
           [&](std::size_t at, std::size_t size) { layers_.gelu_backward(size, x + at, delta + at); });
  bias_backward(rows, columns, delta, bias_gradient);
}

void CpuOps::layer_norm(int rows, int columns, const float* x, const float* weight, const float* bias,
                        float* out, float* mean, float* scale) {
  by_rows(rows, columns, [&](int row, int count) {
    const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(columns);
    layers_.layer_norm(count, columns, x + at, weight, bias, out + at, mean + row, scale + row);
  });
}

void CpuOps::layer_norm_backward(int rows, int columns, const float* x, const float* weight,
                                 const float* mean, const float* scale, const float* delta, float* x_gradient,
                                 float* weight_gradient, float* bias_gradient) {
  by_rows(rows, columns, [&](int row, int count) {
    const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(columns);
    layers_.layer_norm_backward(count, columns, x + at, weight, mean + row, scale + row, delta + at,
                                x_gradient + at);
  });
  by_rows(columns, rows, [&](int at, int width) {
    layers_.layer_norm_gradients(rows, columns, width, x + at, mean, scale, delta + at, weight_gradient + at,
                                 bias_gradient + at);
  });
}

void CpuOps::embed(int rows, int length, int columns, const std::int32_t* tokens, const float* token_table,
                   const float* position_table, float* out) {
  const auto width = static_cast<std::size_t>(columns);
  by_rows(rows, columns, [&](int first, int count) {
    for (int row = first; row < first + count; ++row) {
      loops_.add_scaled(width, token_table + std::ptrdiff_t{tokens[row]} * columns, 1,
                        position_table + std::ptrdiff_t{row % length} * columns,
                        out + std::ptrdiff_t{row} * columns);
    }
  });
}

// The work is divided among threads by columns, so that the order of each sum is fixed.
void CpuOps::embed_backward(int rows, int length, int columns, const std::int32_t* tokens, const float* delta,
                            float* token_gradient, float* position_gradient) {
  std::fill_n(position_gradient, std::ptrdiff_t{length} * columns, 0.0f);
  by_rows(columns, rows, [&](int at, int width) {
    const auto add = [&](const float* from, float* to) {
      loops_.add_scaled(static_cast<std::size_t>(width), to, 1, from, to);
    };
    for (int row = 0; row < rows; ++row) {
      const float* of_row = delta + std::ptrdiff_t{row} * columns + at;
      add(of_row, token_gradient + std::ptrdiff_t{tokens[row]} * columns + at);
      add(of_row, position_gradient + std::ptrdiff_t{row % length} * columns + at);
    }
  });
}

void CpuOps::attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sums) {
  const int size = shape.head_size, length = shape.length, heads = shape.batch * shape.heads;
  const int row = 3 * shape.heads * size, out_row = shape.heads * size;
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  in_parts(std::min<double>(heads, products_of(shape) / least_operations), [&](int part, int parts) {
    float* scores =
        scratch(part, static_cast<std::size_t>(queries_at_once) * static_cast<std::size_t>(length));
    for (int head = heads * part / parts; head < heads * (part + 1) / parts; ++head) {
      const HeadPlaces places(shape, head);
      for (int first = 0; first < length; first += queries_at_once) {
        const int queries = std::min(queries_at_once, length - first), seen = first + queries;
        float* of_out = out + places.in_out(first);
        multiply_alone(part, Transpose::no, Transpose::yes, queries, seen, size, 1,
                       qkv + places.in_qkv(0, first), row, qkv + places.in_qkv(1, 0), row, 0, scores, seen);
        float sums[queries_at_once];
        for (int i = 0; i < queries; ++i) {
          float largest = 0;
          sums[i] = layers_.attention_weights(first + i + 1, seen, scale, scores + i * seen, &largest);
          log_sums[static_cast<std::size_t>(head) * places.length + static_cast<std::size_t>(first + i)] =
              scale * largest + std::log(sums[i]);
        }
        multiply_alone(part, Transpose::no, Transpose::no, queries, size, seen, 1, scores, seen,
                       qkv + places.in_qkv(2, 0), row, 0, of_out, out_row);
        // Divides the output, not the weights, by the sum of the weights, because the output has fewer
        // numbers.
        for (int i = 0; i < queries; ++i) {
          float* of_query = of_out + static_cast<std::ptrdiff_t>(i) * out_row;
          loops_.scale(places.size, 1 / sums[i], of_query, of_query);
        }
      }
    }
  });
}

// The weights are computed again from log_sums, which costs one product and saves memory that grows with the
// square of the length. The last queries are computed first. They see all positions, so their products
// initialise the gradients of keys and values, and the products of the other queries are added.
void CpuOps::attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                                const float* log_sums, const float* delta, float* qkv_gradient) {
  const int size = shape.head_size, length = shape.length, heads = shape.batch * shape.heads;
  const int row = 3 * shape.heads * size, out_row = shape.heads * size;
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  in_parts(std::min<double>(heads, 2.5 * products_of(shape) / least_operations), [&](int part, int parts) {
    const std::size_t block = static_cast<std::size_t>(queries_at_once) * static_cast<std::size_t>(length);
    float* scores = scratch(part, 2 * block);
    float* by_weights = scores + block;
    for (int head = heads * part / parts; head < heads * (part + 1) / parts; ++head) {
      const HeadPlaces places(shape, head);
      const float *keys = qkv + places.in_qkv(1, 0), *values = qkv + places.in_qkv(2, 0);
      const int blocks = (length + queries_at_once - 1) / queries_at_once;
      for (int first = (blocks - 1) * queries_at_once; first >= 0; first -= queries_at_once) {
        const int queries = std::min(queries_at_once, length - first), seen = first + queries;
        const float* of_queries = qkv + places.in_qkv(0, first);
        const float* of_delta = delta + places.in_out(first);
        const float beta = seen == length ? 0 : 1;
        multiply_alone(part, Transpose::no, Transpose::yes, queries, seen, size, 1, of_queries, row, keys,
                       row, 0, scores, seen);
        multiply_alone(part, Transpose::no, Transpose::yes, queries, seen, size, 1, of_delta, out_row, values,
                       row, 0, by_weights, seen);
        for (int i = 0; i < queries; ++i) {
          const float mean =
              layers_.dot(size, delta + places.in_out(first + i), out + places.in_out(first + i));
          const std::size_t at =
              static_cast<std::size_t>(head) * places.length + static_cast<std::size_t>(first + i);
          layers_.attention_weights_backward(first + i + 1, seen, scale, log_sums[at], mean,
                                             scores + i * seen, by_weights + i * seen);
        }
        multiply_alone(part, Transpose::yes, Transpose::no, seen, size, queries, 1, scores, seen, of_delta,
                       out_row, beta, qkv_gradient + places.in_qkv(2, 0), row);
        multiply_alone(part, Transpose::no, Transpose::no, queries, size, seen, 1, by_weights, seen, keys,
                       row, 0, qkv_gradient + places.in_qkv(0, first), row);
        multiply_alone(part, Transpose::yes, Transpose::no, seen, size, queries, 1, by_weights, seen,
                       of_queries, row, beta, qkv_gradient + places.in_qkv(1, 0), row);
      }
    }
  });
}

}  // namespace mlk::kernels
