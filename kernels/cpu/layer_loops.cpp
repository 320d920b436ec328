// One body for each loop, inlined into one function for each instruction set; see vector_loops.cpp.
#include "kernels/cpu/layer_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/instruction_sets.h"

namespace mlk::kernels {
namespace {

namespace layer_body {

// The sum of term(0), ..., term(size - 1): term i is added up in lane i % lanes, so that the order is the
// same with vectors of any length.
template <typename Number, typename Size, typename Term>
MLK_INLINE Number sum_over(Size size, Term term) {
  constexpr int lanes = 16;
  Number sums[lanes] = {};
  Size i = 0;
  for (; i + lanes <= size; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += term(i + static_cast<Size>(lane));
  }
  for (int lane = 0; i < size; ++i, ++lane) sums[lane] += term(i);
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

// GELU(x) = x * s, where s = 1 / (1 + e^(-2 u)) and u is the argument of tanh, since (1 + tanh(u)) / 2 = s.
struct Gelu {
  float s, slope_of_s;  // slope_of_s: s * (1 - s), the derivative of s by 2 u
};
constexpr float gelu_scale = 1.5957691216f;  // 2 * sqrt(2 / pi)
constexpr float gelu_cube = 0.044715f;

MLK_INLINE Gelu gelu_at(float x) {
  const float twice_u = gelu_scale * (x + gelu_cube * (x * x * x));
  const float e = exponential(twice_u < 0 ? twice_u : -twice_u), sum = 1 + e;
  return {(twice_u < 0 ? e : 1) / sum, e / (sum * sum)};
}

MLK_INLINE void add_bias_gelu(int rows, int columns, const float* __restrict bias, float* __restrict x,
                              float* __restrict out) {
  for (int row = 0; row < rows; ++row, x += columns, out += columns) {
    for (int i = 0; i < columns; ++i) {
      const float value = x[i] + bias[i];
      x[i] = value;
      out[i] = value * gelu_at(value).s;
    }
  }
}

MLK_INLINE void gelu_backward(std::size_t size, const float* __restrict x, float* __restrict delta) {
  // Beyond `far`, s no longer changes, and the product of its slope and the slope of x^3 could be 0 times
  // infinity.
  constexpr float far = 16;
  for (std::size_t i = 0; i < size; ++i) {
    const float capped = x[i] > far ? far : x[i], near = capped < -far ? -far : capped;
    const Gelu gelu = gelu_at(near);
    const float slope_of_u = gelu_scale * (1 + 3 * gelu_cube * (near * near));
    delta[i] *= gelu.s + near * gelu.slope_of_s * slope_of_u;
  }
}

MLK_INLINE void layer_norm(int rows, int columns, const float* __restrict x, const float* __restrict weight,
                           const float* __restrict bias, float* __restrict out, float* __restrict mean,
                           float* __restrict scale) {
  constexpr float epsilon = 1e-5f;
  const auto count = static_cast<float>(columns);
  for (int row = 0; row < rows; ++row, x += columns, out += columns) {
    const float middle = sum_over<float>(columns, [x](int i) { return x[i]; }) / count;
    const float squares =
        sum_over<float>(columns, [x, middle](int i) { return (x[i] - middle) * (x[i] - middle); });
    const float reciprocal = 1 / std::sqrt(squares / count + epsilon);
    for (int i = 0; i < columns; ++i) out[i] = (x[i] - middle) * reciprocal * weight[i] + bias[i];
    mean[row] = middle;
    scale[row] = reciprocal;
  }
}

MLK_INLINE void layer_norm_backward(int rows, int columns, const float* __restrict x,
                                    const float* __restrict weight, const float* __restrict mean,
                                    const float* __restrict scale, const float* __restrict delta,
                                    float* __restrict x_gradient) {
  const auto count = static_cast<float>(columns);
  for (int row = 0; row < rows; ++row, x += columns, delta += columns, x_gradient += columns) {
    const float middle = mean[row], reciprocal = scale[row];
    const float sum = sum_over<float>(columns, [=](int i) { return delta[i] * weight[i]; });
    const float product = sum_over<float>(
        columns, [=](int i) { return delta[i] * weight[i] * ((x[i] - middle) * reciprocal); });
    const float mean_of_sum = sum / count, mean_of_product = product / count;
    for (int i = 0; i < columns; ++i) {
      const float normal = (x[i] - middle) * reciprocal;
      x_gradient[i] += (delta[i] * weight[i] - mean_of_sum - normal * mean_of_product) * reciprocal;
    }
  }
}

MLK_INLINE void layer_norm_gradients(int rows, int columns, int width, const float* __restrict x,
                                     const float* __restrict mean, const float* __restrict scale,
                                     const float* __restrict delta, float* __restrict weight_gradient,
                                     float* __restrict bias_gradient) {
  std::fill_n(weight_gradient, width, 0.0f);
  std::fill_n(bias_gradient, width, 0.0f);
  for (int row = 0; row < rows; ++row, x += columns, delta += columns) {
    const float middle = mean[row], reciprocal = scale[row];
    for (int i = 0; i < width; ++i) {
      weight_gradient[i] += delta[i] * ((x[i] - middle) * reciprocal);
      bias_gradient[i] += delta[i];
    }
  }
}

// If the first number is a NaN, the result is a NaN. Every other NaN is ignored.
MLK_INLINE float largest_of(int size, const float* x) {
  constexpr int lanes = 16;
  float tops[lanes];
  std::fill_n(tops, lanes, x[0]);
  int at = 0;
  for (; at + lanes <= size; at += lanes) {
    for (int lane = 0; lane < lanes; ++lane)
      tops[lane] = tops[lane] < x[at + lane] ? x[at + lane] : tops[lane];
  }
  for (; at < size; ++at) tops[0] = tops[0] < x[at] ? x[at] : tops[0];
  float top = tops[0];
  for (int lane = 1; lane < lanes; ++lane) top = top < tops[lane] ? tops[lane] : top;
  return top;
}

MLK_INLINE float attention_weights(int seen, int size, float scale, float* __restrict scores,
                                   float* __restrict largest) {
  const float top = largest_of(seen, scores);
  *largest = top;
  for (int i = 0; i < seen; ++i) scores[i] = exponential(scale * (scores[i] - top));
  std::fill_n(scores + seen, size - seen, 0.0f);
  return sum_over<float>(seen, [scores](int i) { return scores[i]; });
}

// Adds up 1024 numbers at a time in float, and the results in double, so that a sum of many numbers is as
// exact as a sum of few.
template <typename Term>
MLK_INLINE double exact_sum(int size, Term term) {
  constexpr int most = 1024;
  double sum = 0;
  for (int at = 0; at < size; at += most)
    sum +=
        static_cast<double>(sum_over<float>(std::min(most, size - at), [=](int i) { return term(at + i); }));
  return sum;
}

MLK_INLINE double exponentials(int size, const float* x, float* out, float* largest) {
  const float top = largest_of(size, x);
  *largest = top;
#pragma GCC ivdep
  for (int i = 0; i < size; ++i) out[i] = exponential(x[i] - top);
  return exact_sum(size, [out](int i) { return out[i]; });
}

MLK_INLINE double log_of_exponentials(int size, const float* x) {
  const float top = largest_of(size, x);
  return static_cast<double>(top) +
         std::log(exact_sum(size, [x, top](int i) { return exponential(x[i] - top); }));
}

MLK_INLINE void attention_weights_backward(int seen, int size, float scale, float log_sum, float mean,
                                           float* __restrict scores, float* __restrict by_weights) {
  for (int i = 0; i < seen; ++i) {
    const float weight = exponential(scale * scores[i] - log_sum);
    scores[i] = weight;
    by_weights[i] = weight * (by_weights[i] - mean) * scale;
  }
  std::fill_n(scores + seen, size - seen, 0.0f);
  std::fill_n(by_weights + seen, size - seen, 0.0f);
}

MLK_INLINE float dot(int size, const float* a, const float* b) {
  return sum_over<float>(size, [a, b](int i) { return a[i] * b[i]; });
}

// Adds up in double, because the square of a float may be beyond the largest float.
MLK_INLINE double sum_of_squares(std::size_t size, const float* x) {
  return sum_over<double>(
      size, [x](std::size_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

MLK_INLINE void dropout(std::size_t size, const DropoutMask& mask, const float* x, float* out) {
  constexpr std::size_t blocks = 16, words = 4 * blocks;
  const std::uint32_t threshold = mask.threshold();
  const float factor = mask.factor();
  std::size_t i = 0;
  const auto one = [&] { out[i] = mask.keeps(mask.first + i) ? factor * x[i] : 0; };
  for (; i < size && (mask.first + i) % 4 != 0; ++i) one();
  for (; i + words <= size; i += words) {
    std::uint32_t random[words];
    for (std::size_t block = 0; block < blocks; ++block) {
      const auto four = mask.words((mask.first + i) / 4 + block);
      for (std::size_t word = 0; word < 4; ++word) random[4 * block + word] = four[word];
    }
#pragma GCC ivdep
    for (std::size_t k = 0; k < words; ++k) out[i + k] = random[k] >= threshold ? factor * x[i + k] : 0;
  }
  for (; i < size; ++i) one();
}

// Returns the second number if it is larger, or if only the second number is NaN. Otherwise returns the
// first number.
MLK_INLINE float larger(float first, float second) {
  return second > first || (second != second && first == first) ? second : first;
}

MLK_INLINE void max_pool(int width, int channels, const float* __restrict upper,
                         const float* __restrict lower, float* __restrict out) {
  for (int x = 0; x < width; x += 2, upper += 2 * channels, lower += 2 * channels, out += channels) {
    for (int i = 0; i < channels; ++i) {
      out[i] = larger(larger(larger(upper[i], upper[i + channels]), lower[i]), lower[i + channels]);
    }
  }
}

MLK_INLINE void max_pool_backward(int width, int channels, const float* __restrict upper,
                                  const float* __restrict lower, const float* __restrict delta,
                                  float* __restrict upper_gradient, float* __restrict lower_gradient) {
  constexpr std::uint32_t all_bits = ~std::uint32_t{0};
  for (int x = 0; x < width; x += 2) {
    for (int i = 0; i < channels; ++i) {
      const int right = i + channels;
      const float largest = larger(larger(larger(upper[i], upper[right]), lower[i]), lower[right]);
      // Masks have 32 bits, because the compiler makes vectors of such masks, but not of bool.
      const auto is_largest = [largest](float value) {
        const std::uint32_t equal = value == largest ? all_bits : 0;
        return equal | (value != value ? all_bits : 0);
      };
      const auto kept = [from = std::bit_cast<std::uint32_t>(delta[i])](std::uint32_t mask) {
        return std::bit_cast<float>(from & mask);
      };
      const std::uint32_t first = is_largest(upper[i]), second = ~first & is_largest(upper[right]),
                          third = ~(first | second) & is_largest(lower[i]);
      upper_gradient[i] = kept(first);
      upper_gradient[right] = kept(second);
      lower_gradient[i] = kept(third);
      lower_gradient[right] = kept(~(first | second | third));
    }
    upper += 2 * channels, lower += 2 * channels, delta += channels;
    upper_gradient += 2 * channels, lower_gradient += 2 * channels;
  }
}

MLK_INLINE void copy_windows(const WindowLines& given, const float* __restrict image,
                             float* __restrict windows) {
  const WindowLines lines = given;
  for (int line = 0; line < lines.count; ++line, image += lines.channels, windows += lines.stride) {
    for (std::ptrdiff_t i = 0; i < lines.before; ++i) windows[i] = 0;
    float* __restrict out = windows + lines.before;
    for (std::ptrdiff_t i = 0; i < lines.size; ++i) out[i] = image[i];
    for (std::ptrdiff_t i = lines.before + lines.size; i < lines.width; ++i) windows[i] = 0;
  }
}

MLK_INLINE void add_windows(const WindowLines& given, const float* __restrict windows,
                            float* __restrict image) {
  const WindowLines lines = given;
  windows += lines.before;
  for (int line = 0; line < lines.count; ++line, image += lines.channels, windows += lines.stride) {
    for (std::ptrdiff_t i = 0; i < lines.size; ++i) image[i] += windows[i];
  }
}

}  // namespace layer_body

template <template <auto> typename Compiled>
constexpr LayerLoops layer_table(const char* name) {
  return {name,
          Compiled<layer_body::add_bias_gelu>::call,
          Compiled<layer_body::layer_norm>::call,
          Compiled<layer_body::dropout>::call,
          Compiled<layer_body::gelu_backward>::call,
          Compiled<layer_body::layer_norm_backward>::call,
          Compiled<layer_body::layer_norm_gradients>::call,
          Compiled<layer_body::attention_weights>::call,
          Compiled<layer_body::attention_weights_backward>::call,
          Compiled<layer_body::exponentials>::call,
          Compiled<layer_body::log_of_exponentials>::call,
          Compiled<layer_body::dot>::call,
          Compiled<layer_body::sum_of_squares>::call,
          Compiled<layer_body::max_pool>::call,
          Compiled<layer_body::max_pool_backward>::call,
          Compiled<layer_body::copy_windows>::call,
          Compiled<layer_body::add_windows>::call};
}

MLK_COMPILED_LOOP(LayersPortable, );
#if MLK_AVX512_AND_AVX2
MLK_COMPILED_LOOP(LayersAvx2, MLK_FOR_AVX2);
MLK_COMPILED_LOOP(LayersAvx512, MLK_FOR_AVX512);
constexpr LayerLoops layer_tables[] = {layer_table<LayersAvx512>("avx512"), layer_table<LayersAvx2>("avx2"),
                                       layer_table<LayersPortable>("portable")};
#else
constexpr LayerLoops layer_tables[] = {layer_table<LayersPortable>("portable")};
#endif

}  // namespace

std::span<const LayerLoops> layer_loops() { return that_run_here<LayerLoops>(layer_tables); }

}  // namespace mlk::kernels
