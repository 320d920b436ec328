// Operations on each number by itself: one thread for each, in rounds of the whole grid.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

constexpr unsigned threads = 256, most_blocks = 1024;

Grid grid_for(std::size_t size) {
  const unsigned blocks = divide_up(size, threads);
  return {blocks < most_blocks ? blocks : most_blocks, threads};
}

// Calls work(i) for the numbers of this thread.
template <typename Work>
__device__ void for_each(std::size_t size, Work work) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) work(i);
}

// Written this way, NaN stays NaN and shows in the loss.
__device__ float relu(float x) { return x < 0 ? 0 : x; }

__global__ void add_bias_kernel(std::size_t size, int columns, const float* bias, float* x) {
  for_each(size, [=](std::size_t i) { x[i] += bias[i % static_cast<std::size_t>(columns)]; });
}

__global__ void add_bias_relu_kernel(std::size_t size, int columns, const float* bias, float* x) {
  for_each(size, [=](std::size_t i) { x[i] = relu(x[i] + bias[i % static_cast<std::size_t>(columns)]); });
}

__global__ void scale_kernel(std::size_t size, float factor, const float* x, float* out) {
  // Not 0 * x: x may hold anything, also NaN.
  for_each(size, [=](std::size_t i) { out[i] = factor == 0 ? 0 : factor * x[i]; });
}

__global__ void add_scaled_kernel(std::size_t size, const float* x, float factor, const float* y,
                                  float* out) {
  for_each(size, [=](std::size_t i) { out[i] = x[i] + factor * y[i]; });
}

__global__ void scale_bytes_kernel(std::size_t size, const std::uint8_t* bytes, float factor, float* out) {
  for_each(size, [=](std::size_t i) { out[i] = static_cast<float>(bytes[i]) * factor; });
}

__global__ void widen_labels_kernel(std::size_t size, const std::uint8_t* bytes, std::int32_t* out) {
  for_each(size, [=](std::size_t i) { out[i] = bytes[i]; });
}

// As ReferenceOps has them, operation by operation: with -fmad=false the bits are those of processors.
__global__ void sgd_kernel(std::size_t size, float* parameters, const float* gradients, float* velocity,
                           SgdStep step) {
  for_each(size, [=](std::size_t i) {
    const float g = gradients[i] + step.weight_decay * parameters[i];
    const float v = step.momentum * velocity[i] + g;
    velocity[i] = v;
    parameters[i] -= step.lr * (step.nesterov ? g + step.momentum * v : v);
  });
}

__global__ void adam_kernel(std::size_t size, float* parameters, const float* gradients, float* mean,
                            float* square, AdamStep step) {
  for_each(size, [=](std::size_t i) {
    const float g = gradients[i] + step.l2 * parameters[i];
    const float m = step.beta1 * mean[i] + step.one_minus_beta1 * g;
    const float s = step.beta2 * square[i] + step.one_minus_beta2 * (g * g);
    mean[i] = m;
    square[i] = s;
    const float direction = m / (sqrtf(s) + step.epsilon);
    parameters[i] -= step.decay * parameters[i] + step.lr * direction;
  });
}

std::size_t count(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

void add_bias(cudaStream_t stream, int rows, int columns, const float* bias, float* x) {
  const std::size_t size = count(rows, columns);
  launch(grid_for(size), stream, add_bias_kernel, size, columns, bias, x);
}

void add_bias_relu(cudaStream_t stream, int rows, int columns, const float* bias, float* x) {
  const std::size_t size = count(rows, columns);
  launch(grid_for(size), stream, add_bias_relu_kernel, size, columns, bias, x);
}

void sgd(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* velocity,
         const SgdStep& step) {
  launch(grid_for(size), stream, sgd_kernel, size, parameters, gradients, velocity, step);
}

void adam(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* mean,
          float* square, const AdamStep& step) {
  launch(grid_for(size), stream, adam_kernel, size, parameters, gradients, mean, square, step);
}

void scale(cudaStream_t stream, std::size_t size, float factor, const float* x, float* out) {
  launch(grid_for(size), stream, scale_kernel, size, factor, x, out);
}

void add_scaled(cudaStream_t stream, std::size_t size, const float* x, float factor, const float* y,
                float* out) {
  launch(grid_for(size), stream, add_scaled_kernel, size, x, factor, y, out);
}

void scale_bytes(cudaStream_t stream, std::size_t size, const std::uint8_t* bytes, float factor, float* out) {
  launch(grid_for(size), stream, scale_bytes_kernel, size, bytes, factor, out);
}

void widen_labels(cudaStream_t stream, std::size_t size, const std::uint8_t* bytes, std::int32_t* out) {
  launch(grid_for(size), stream, widen_labels_kernel, size, bytes, out);
}

}  // namespace mlk::cuda
