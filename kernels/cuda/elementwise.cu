// Biases, sums and multiples.
#include "kernels/cuda/elementwise.h"

#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

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

}  // namespace

void add_bias(cudaStream_t stream, int rows, int columns, const float* bias, float* x) {
  const std::size_t size = area(rows, columns);
  launch(grid_for(size), stream, add_bias_kernel, size, columns, bias, x);
}

void add_bias_relu(cudaStream_t stream, int rows, int columns, const float* bias, float* x) {
  const std::size_t size = area(rows, columns);
  launch(grid_for(size), stream, add_bias_relu_kernel, size, columns, bias, x);
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
