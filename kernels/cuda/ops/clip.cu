// Clipping by the norm of all gradients, without the host: up to 1024 blocks sum up squares, one block adds
// up these sums, and then every block reads the total and scales its numbers.
#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"
#include "kernels/cuda/base/reduce.h"

namespace mlk::cuda {
namespace {

__global__ void sum_of_squares_kernel(std::size_t size, std::size_t head, const float* x, double* sums) {
  double* const shared = shared_memory<double>();
  double sum = 0;
  for_each_wide(size, head, [&](auto width, std::size_t i) {
    for (const float number : load<width>(x + i).of)
      sum += static_cast<double>(number) * static_cast<double>(number);
  });
  sum = reduce_block(sum, 0.0, Sum(), shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void sum_of_sums_kernel(unsigned count, const double* sums, double* total) {
  double* const shared = shared_memory<double>();
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = reduce_block(sum, 0.0, Sum(), shared);
  if (threadIdx.x == 0) *total = sum;
}

// For an infinite norm the factor is NaN, not 0, so that a diverged model is noticed.
__global__ void clip_kernel(std::size_t size, std::size_t head, float* x, float most, const double* squares) {
  const double norm = sqrt(*squares);
  if (norm <= static_cast<double>(most)) return;
  const double factor = isfinite(norm) ? static_cast<double>(most) / norm : static_cast<double>(NAN);
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto numbers = load<width>(x + i);
    for (float& number : numbers.of) number *= static_cast<float>(factor);
    store(x + i, numbers);
  });
}

}  // namespace

void clip(cudaStream_t stream, std::size_t size, float* gradients, float most, double* sums) {
  if (size == 0) return;
  const std::size_t head = head_of(size, gradients);
  const Grid plain = wide_grid_for(size);
  Grid summing = plain, one = plain;
  summing.shared_bytes = one.shared_bytes = (warp_threads + 1) * sizeof(double);
  one.blocks = 1;
  double* const total = sums + plain.blocks.x;
  launch(summing, stream, sum_of_squares_kernel, size, head, gradients, sums);
  launch(one, stream, sum_of_sums_kernel, plain.blocks.x, sums, total);
  launch(plain, stream, clip_kernel, size, head, gradients, most, total);
}

}  // namespace mlk::cuda
