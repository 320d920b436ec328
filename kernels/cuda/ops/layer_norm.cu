// Layer normalisation (Ba, Kiros & Hinton 2016).
//
// The simple version, for rows of any length, has one block for each row, which reads the row three times. In
// the fast version each warp handles a row, reads it once and keeps it in shared memory. Each lane uses only
// its own numbers there, so no lane waits for another. In the fast backward pass a warp handles many rows,
// and each lane also adds up the gradients by weight and bias for its columns. Then the sums of all blocks
// are added up in a fixed order.
#include "kernels/cuda/base/column_sums.h"
#include "kernels/cuda/base/reduce.h"

namespace mlk::cuda {
namespace {

constexpr unsigned threads_of_row = 128;
constexpr float epsilon = 1e-5f;

__global__ void layer_norm_kernel(int columns, const float* x, const float* weight, const float* bias,
                                  float* out, float* mean, float* scale) {
  float* const shared = shared_memory<float>();
  const unsigned width = static_cast<unsigned>(columns);
  const std::size_t first = std::size_t{blockIdx.x} * width;
  float sum = 0, squares = 0;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) sum += x[first + i];
  const float middle = reduce_block(sum, 0.0f, Sum(), shared) / static_cast<float>(columns);
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
    const float apart = x[first + i] - middle;
    squares += apart * apart;
  }
  const float variance = reduce_block(squares, 0.0f, Sum(), shared) / static_cast<float>(columns);
  const float reciprocal = 1 / sqrtf(variance + epsilon);
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
    out[first + i] = (x[first + i] - middle) * reciprocal * weight[i] + bias[i];
  if (threadIdx.x != 0) return;
  mean[blockIdx.x] = middle;
  scale[blockIdx.x] = reciprocal;
}

// With n = (x - mean) * scale and g = delta * weight, the gradient by x is (g - mean(g) - n * mean(g * n)) *
// scale, where the means are over the row.
__global__ void by_input_kernel(int columns, const float* x, const float* weight, const float* mean,
                                const float* scale, const float* delta, float* x_gradient) {
  float* const shared = shared_memory<float>();
  const unsigned width = static_cast<unsigned>(columns);
  const std::size_t first = std::size_t{blockIdx.x} * width;
  const float middle = mean[blockIdx.x], reciprocal = scale[blockIdx.x];
  float sum = 0, product = 0;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
    const float g = delta[first + i] * weight[i];
    sum += g;
    product += g * (x[first + i] - middle) * reciprocal;
  }
  sum = reduce_block(sum, 0.0f, Sum(), shared) / static_cast<float>(columns);
  product = reduce_block(product, 0.0f, Sum(), shared) / static_cast<float>(columns);
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
    const float normal = (x[first + i] - middle) * reciprocal;
    x_gradient[first + i] += (delta[first + i] * weight[i] - sum - normal * product) * reciprocal;
  }
}

// The gradient by weight[column] is the sum of delta * (x - mean) * scale over the rows.
struct OfWeight {
  const float *x, *mean, *scale;
  unsigned columns;

  template <unsigned width>
  __device__ void operator()(std::size_t place, Numbers<width>& numbers) const {
    const auto values = load<width>(x + place);
    const std::size_t row = place / columns;
    for (unsigned j = 0; j < width; ++j) numbers.of[j] *= (values.of[j] - mean[row]) * scale[row];
  }
};

Grid one_block_a_row(int rows) {
  return {static_cast<unsigned>(rows), threads_of_row, (warp_threads + 1) * sizeof(float)};
}

namespace fast {

constexpr unsigned most_warps = 4, most_blocks = 512, rows_of_warp = 4;
constexpr std::size_t most_bytes = 96 * 1024;

// How many warps a block has if each warp keeps `kept` rows in shared memory; 0: the rows are too long.
constexpr unsigned warps_for(int columns, unsigned kept) {
  unsigned warps = most_warps;
  while (warps > 0 && warps * kept * area(1, columns) * sizeof(float) > most_bytes) warps /= 2;
  return warps;
}

__global__ void layer_norm_kernel(unsigned rows, unsigned columns, bool wide, const float* x,
                                  const float* weight, const float* bias, float* out, float* mean,
                                  float* scale) {
  const unsigned lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  const unsigned row = blockIdx.x * (blockDim.x / warp_threads) + warp;
  if (row >= rows) return;
  float* const kept = shared_memory<float>() + std::size_t{warp} * columns;
  const std::size_t first = std::size_t{row} * columns, head = wide ? 0 : columns;
  const auto for_each_own = [=](auto work) { for_each_wide(columns, head, lane, warp_threads, work); };
  float sum = 0, squares = 0;
  for_each_own([&](auto width, std::size_t i) {
    const auto numbers = load<width>(x + first + i);
    for (unsigned j = 0; j < width; ++j) sum += numbers.of[j];
    store(kept + i, numbers);
  });
  const float middle = reduce_warp(sum, Sum()) / static_cast<float>(columns);
  for_each_own([&](auto width, std::size_t i) {
    for (const float number : load<width>(kept + i).of) squares += (number - middle) * (number - middle);
  });
  const float reciprocal = 1 / sqrtf(reduce_warp(squares, Sum()) / static_cast<float>(columns) + epsilon);
  for_each_own([&](auto width, std::size_t i) {
    auto numbers = load<width>(kept + i);
    const auto weights = load<width>(weight + i), biases = load<width>(bias + i);
    for (unsigned j = 0; j < width; ++j)
      numbers.of[j] = (numbers.of[j] - middle) * reciprocal * weights.of[j] + biases.of[j];
    store(out + first + i, numbers);
  });
  if (lane == 0) mean[row] = middle, scale[row] = reciprocal;
}

// What a warp keeps in shared memory: (x - mean) * scale and delta * weight of a row, and the sums of the
// gradients by weight and by bias.
struct Kept {
  float *normal, *g, *by_weight, *by_bias;
  __device__ Kept(unsigned warp, unsigned columns)
      : normal(shared_memory<float>() + std::size_t{warp} * 4 * columns),
        g(normal + columns),
        by_weight(g + columns),
        by_bias(by_weight + columns) {}
};

// partials[2][blocks][columns]: by weight, then by bias.
__global__ void backward_kernel(unsigned rows, unsigned columns, bool wide, const float* x,
                                const float* weight, const float* mean, const float* scale,
                                const float* delta, float* x_gradient, float* partials) {
  const unsigned lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  const unsigned warps = blockDim.x / warp_threads;
  const Kept kept(warp, columns);
  const std::size_t head = wide ? 0 : columns;
  const auto for_each_own = [=](auto work) { for_each_wide(columns, head, lane, warp_threads, work); };
  for_each_own([&](auto width, std::size_t i) {
    const Numbers<width> zeros{};
    store(kept.by_weight + i, zeros);
    store(kept.by_bias + i, zeros);
  });
  for (unsigned row = blockIdx.x * warps + warp; row < rows; row += gridDim.x * warps) {
    const std::size_t first = std::size_t{row} * columns;
    const float middle = mean[row], reciprocal = scale[row];
    float sum = 0, product = 0;
    for_each_own([&](auto width, std::size_t i) {
      auto normal = load<width>(x + first + i), g = load<width>(delta + first + i);
      auto by_weight = load<width>(kept.by_weight + i), by_bias = load<width>(kept.by_bias + i);
      const auto weights = load<width>(weight + i);
      for (unsigned j = 0; j < width; ++j) {
        normal.of[j] = (normal.of[j] - middle) * reciprocal;
        by_weight.of[j] += g.of[j] * normal.of[j];
        by_bias.of[j] += g.of[j];
        g.of[j] *= weights.of[j];
        sum += g.of[j];
        product += g.of[j] * normal.of[j];
      }
      store(kept.normal + i, normal);
      store(kept.g + i, g);
      store(kept.by_weight + i, by_weight);
      store(kept.by_bias + i, by_bias);
    });
    sum = reduce_warp(sum, Sum()) / static_cast<float>(columns);
    product = reduce_warp(product, Sum()) / static_cast<float>(columns);
    for_each_own([&](auto width, std::size_t i) {
      const auto normal = load<width>(kept.normal + i), g = load<width>(kept.g + i);
      auto gradient = load<width>(x_gradient + first + i);
      for (unsigned j = 0; j < width; ++j)
        gradient.of[j] += (g.of[j] - sum - normal.of[j] * product) * reciprocal;
      store(x_gradient + first + i, gradient);
    });
  }
  __syncthreads();
  for (unsigned column = threadIdx.x; column < columns; column += blockDim.x) {
    float by_weight = 0, by_bias = 0;
    for (unsigned other = 0; other < warps; ++other) {
      by_weight += Kept(other, columns).by_weight[column];
      by_bias += Kept(other, columns).by_bias[column];
    }
    const std::size_t place = std::size_t{blockIdx.x} * columns + column;
    partials[place] = by_weight;
    partials[std::size_t{gridDim.x} * columns + place] = by_bias;
  }
}

unsigned backward_blocks(int rows, unsigned warps) {
  const unsigned blocks = divide_up(static_cast<std::size_t>(rows), warps * rows_of_warp);
  return blocks < most_blocks ? (blocks > 0 ? blocks : 1) : most_blocks;
}

Grid grid(unsigned blocks, unsigned warps, unsigned kept, int columns) {
  return {blocks, warps * warp_threads, warps * kept * area(1, columns) * sizeof(float)};
}

}  // namespace fast

}  // namespace

void layer_norm(cudaStream_t stream, int rows, int columns, const float* x, const float* weight,
                const float* bias, float* out, float* mean, float* scale) {
  const unsigned warps = fast::warps_for(columns, 1);
  if (warps == 0) {
    launch(one_block_a_row(rows), stream, layer_norm_kernel, columns, x, weight, bias, out, mean, scale);
    return;
  }
  launch(fast::grid(divide_up(static_cast<std::size_t>(rows), warps), warps, 1, columns), stream,
         fast::layer_norm_kernel, static_cast<unsigned>(rows), static_cast<unsigned>(columns),
         are_aligned_rows(columns, x, weight, bias, out), x, weight, bias, out, mean, scale);
}

std::size_t layer_norm_partial_sums(int rows, int columns) {
  const unsigned warps = fast::warps_for(columns, 4);
  return warps == 0 ? partial_sums(rows, columns)
                    : std::size_t{2} * fast::backward_blocks(rows, warps) * area(1, columns);
}

void layer_norm_backward(cudaStream_t stream, float* partials, int rows, int columns, const float* x,
                         const float* weight, const float* mean, const float* scale, const float* delta,
                         float* x_gradient, float* weight_gradient, float* bias_gradient) {
  const unsigned warps = fast::warps_for(columns, 4);
  if (warps == 0) {
    launch(one_block_a_row(rows), stream, by_input_kernel, columns, x, weight, mean, scale, delta,
           x_gradient);
    bias_backward(stream, partials, rows, columns, delta, bias_gradient);
    sum_columns(stream, rows, columns, are_aligned_rows(columns, x, delta), delta,
                OfWeight{x, mean, scale, static_cast<unsigned>(columns)}, weight_gradient, partials);
    return;
  }
  const unsigned blocks = fast::backward_blocks(rows, warps);
  launch(fast::grid(blocks, warps, 4, columns), stream, fast::backward_kernel, static_cast<unsigned>(rows),
         static_cast<unsigned>(columns), are_aligned_rows(columns, x, weight, delta, x_gradient), x, weight,
         mean, scale, delta, x_gradient, partials);
  add_partials(stream, blocks, columns, partials, weight_gradient);
  add_partials(stream, blocks, columns, partials + blocks * area(1, columns), bias_gradient);
}

}  // namespace mlk::cuda
