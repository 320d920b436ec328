// The loss of a classifier, its gradient, and how often it is right: one block for each row.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"

namespace mlk::cuda {
namespace {

constexpr unsigned threads_of_row = 128, threads_of_sum = 256;

// Probabilities are not stored: what is kept of a row is its largest logit and the sum of its exponentials.
// A NaN logit makes that sum NaN, though the maximum may not see it.
__global__ void softmax_cross_entropy_kernel(int rows, int classes, const float* logits,
                                             const std::int32_t* labels, float* losses, float* delta) {
  float* const shared = shared_memory<float>();
  const std::size_t first = std::size_t{blockIdx.x} * static_cast<unsigned>(classes);
  const float* const x = logits + first;
  const unsigned label = static_cast<unsigned>(labels[blockIdx.x]), width = static_cast<unsigned>(classes);
  float largest = x[0];
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) largest = Max()(largest, x[i]);
  largest = reduce_block(largest, x[0], Max(), shared);
  float sum = 0;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x) sum += expf(x[i] - largest);
  sum = reduce_block(sum, 0.0f, Sum(), shared);
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + largest - x[label];
  if (delta == nullptr) return;
  __syncthreads();  // delta may be the logits
  const float factor = 1 / (sum * static_cast<float>(rows)), share = 1 / static_cast<float>(rows);
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
    delta[first + i] = expf(x[i] - largest) * factor - (i == label ? share : 0);
}

// The first of equals counts, so a later one has to be larger.
__global__ void mark_correct_kernel(int classes, const float* logits, const std::int32_t* labels,
                                    float* correct) {
  float* const shared = shared_memory<float>();
  const float* const x = logits + std::size_t{blockIdx.x} * static_cast<unsigned>(classes);
  const unsigned label = static_cast<unsigned>(labels[blockIdx.x]), width = static_cast<unsigned>(classes);
  float better = 0;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
    better += i < label ? !(x[i] < x[label]) : x[i] > x[label];
  better = reduce_block(better, 0.0f, Sum(), shared);
  if (threadIdx.x == 0) correct[blockIdx.x] = better == 0 ? 1.0f : 0.0f;
}

__device__ double sum_of(std::size_t size, const float* x) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < size; i += blockDim.x) sum += x[i];
  return reduce_block(sum, 0.0, Sum(), shared_memory<double>());
}

__global__ void sum_kernel(std::size_t size, const float* x, double* total) {
  const double sum = sum_of(size, x);
  if (threadIdx.x == 0) *total = sum;
}

__global__ void mean_kernel(std::size_t size, const float* x, float* mean) {
  const double sum = sum_of(size, x);
  if (threadIdx.x == 0) *mean = size == 0 ? 0 : static_cast<float>(sum / static_cast<double>(size));
}

template <typename T>
Grid one_block_a_row(int rows, unsigned threads) {
  return {static_cast<unsigned>(rows), threads, (warp_threads + 1) * sizeof(T)};
}

}  // namespace

void softmax_cross_entropy(cudaStream_t stream, int rows, int classes, const float* logits,
                           const std::int32_t* labels, float* losses, float* delta) {
  launch(one_block_a_row<float>(rows, threads_of_row), stream, softmax_cross_entropy_kernel, rows, classes,
         logits, labels, losses, delta);
}

void mark_correct(cudaStream_t stream, int rows, int classes, const float* logits, const std::int32_t* labels,
                  float* correct) {
  launch(one_block_a_row<float>(rows, threads_of_row), stream, mark_correct_kernel, classes, logits, labels,
         correct);
}

void mean(cudaStream_t stream, std::size_t size, const float* x, float* mean) {
  launch(one_block_a_row<double>(1, threads_of_sum), stream, mean_kernel, size, x, mean);
}

void sum(cudaStream_t stream, std::size_t size, const float* x, double* total) {
  launch(one_block_a_row<double>(1, threads_of_sum), stream, sum_kernel, size, x, total);
}

}  // namespace mlk::cuda
