// The loss of a classifier, its gradient, and how often the classifier is right: one block for each row.
#include <cfloat>

#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"
#include "kernels/cuda/base/reduce.h"

namespace mlk::cuda {
namespace {

constexpr unsigned threads_of_row = 256, threads_of_sum = 256;
// Each long row has more threads, so fewer rows are in progress at once, and L2 still has most of a row when
// the kernel reads the row again.
constexpr unsigned threads_of_long_row = 1024;
constexpr int long_row = 4096;

// The largest of some numbers, and the sum of exp(number - largest), both updated number by number (Milakov &
// Gimelshein 2018).
struct Exponentials {
  float largest = -FLT_MAX, sum = 0;  // not -INFINITY, since -INFINITY minus itself is NaN

  template <unsigned width>
  __device__ void add(const Numbers<width>& numbers) {
    float most = largest;
    for (const float number : numbers.of) most = Max()(number, most);
    if (most > largest) sum *= expf(largest - most), largest = most;
    for (const float number : numbers.of) sum += expf(number - largest);
  }
};
__device__ Exponentials of_lane_xor(Exponentials value, int lanes) {
  return {__shfl_xor_sync(all_lanes, value.largest, lanes), __shfl_xor_sync(all_lanes, value.sum, lanes)};
}
// Joins the values of two parts of a row. A NaN in a sum stays in the result, although maxima ignore NaN.
struct Join {
  __device__ Exponentials operator()(const Exponentials& a, const Exponentials& b) const {
    const float largest = Max()(a.largest, b.largest);
    return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
  }
};

// Probabilities are not stored. A row is read once from memory, and for the gradient a second time from L2.
__global__ void softmax_cross_entropy_kernel(int rows, int classes, const float* logits,
                                             const std::int32_t* labels, float* losses, float* delta) {
  auto* const shared = shared_memory<Exponentials>();
  const std::size_t first = std::size_t{blockIdx.x} * static_cast<unsigned>(classes);
  const float* const x = logits + first;
  const unsigned label = static_cast<unsigned>(labels[blockIdx.x]), width = static_cast<unsigned>(classes);
  const auto for_each_own = [=](std::size_t head, auto work) {
    for_each_wide(width, head, threadIdx.x, blockDim.x, work);
  };
  Exponentials all;
  for_each_own(head_of(width, x), [&](auto count, std::size_t i) { all.add(load<count>(x + i)); });
  all = reduce_block(all, Exponentials{}, Join(), shared);
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(all.sum) + all.largest - x[label];
  if (delta == nullptr) return;
  __syncthreads();  // delta may be the logits, which all threads must have read
  const float factor = 1 / (all.sum * static_cast<float>(rows)), share = 1 / static_cast<float>(rows);
  for_each_own(head_of(width, x, delta + first), [&](auto count, std::size_t i) {
    auto numbers = load<count>(x + i);
    for (unsigned j = 0; j < count; ++j)
      numbers.of[j] = expf(numbers.of[j] - all.largest) * factor - (i + j == label ? share : 0);
    store(delta + first + i, numbers);
  });
}

// If several logits are the largest, the first one counts. So an equal logit before the label is better than
// the label, but an equal logit after it is not.
__global__ void mark_correct_kernel(int classes, const float* logits, const std::int32_t* labels,
                                    float* correct) {
  float* const shared = shared_memory<float>();
  const float* const x = logits + std::size_t{blockIdx.x} * static_cast<unsigned>(classes);
  const unsigned label = static_cast<unsigned>(labels[blockIdx.x]), width = static_cast<unsigned>(classes);
  float better = 0;
  for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
    better += (i < label ? !(x[i] < x[label]) : x[i] > x[label]) ? 1.0f : 0.0f;
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
  launch(one_block_a_row<Exponentials>(rows, classes < long_row ? threads_of_row : threads_of_long_row),
         stream, softmax_cross_entropy_kernel, rows, classes, logits, labels, losses, delta);
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
