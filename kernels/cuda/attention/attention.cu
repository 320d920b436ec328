// Causal self-attention, the simple version: a warp has one position of one head. The warp iterates over the
// positions that its own position depends on or affects, 32 at a time, one for each lane. Each lane computes
// the product of two vectors. Then the lanes add up the weighted vectors together: each lane adds up a share
// of the numbers. Weights are never stored (Dao et al. 2022): the backward pass computes them again from
// log_sums. Every sum has its own warp, so results have the same bits in every run.
#include "kernels/cuda/base/cuda.h"
#include "kernels/cuda/base/kernels.h"
#include "kernels/cuda/base/reduce.h"

namespace mlk::cuda {
namespace {

constexpr unsigned warps_of_block = 4;

// One head of one sequence.
struct Head {
  unsigned length, heads, size, batch_and_head;

  __device__ std::size_t row(unsigned position) const {
    return std::size_t{batch_and_head / heads} * length + position;
  }
  // The offset in qkv and in its gradient. part: 0 queries, 1 keys, 2 values.
  __device__ std::size_t in_qkv(unsigned part, unsigned position) const {
    return ((row(position) * 3 + part) * heads + batch_and_head % heads) * size;
  }
  // The offset in `out` and in its gradient.
  __device__ std::size_t in_out(unsigned position) const {
    return (row(position) * heads + batch_and_head % heads) * size;
  }
  __device__ std::size_t in_sums(unsigned position) const {
    return std::size_t{batch_and_head} * length + position;
  }
  __device__ float product(const float* a, const float* b) const {
    float sum = 0;
    for (unsigned i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
  }
};

// Returns the position of this warp, or `length` if the warp has no position. Sets the head of the warp.
__device__ unsigned position_of_warp(Head& head) {
  const unsigned blocks = divide_up(head.length, warps_of_block);  // of a head
  head.batch_and_head = blockIdx.x / blocks;
  const unsigned position = blockIdx.x % blocks * warps_of_block + threadIdx.x / warp_threads;
  return position < head.length ? position : head.length;
}

// For each lane below `count`: sums[size] += weight * vector(lane), with the `weight` of this lane.
// Each lane computes a share of the numbers of `sums`.
template <typename Vector>
__device__ void add_weighted(float* sums, unsigned size, float weight, unsigned count, Vector vector) {
  const unsigned lane = threadIdx.x % warp_threads;
  for (unsigned other = 0; other < count; ++other) {
    const float share = __shfl_sync(all_lanes, weight, static_cast<int>(other));
    const float* const values = vector(other);
    for (unsigned i = lane; i < size; i += warp_threads) sums[i] += share * values[i];
  }
}

__device__ unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

// As the loop proceeds, the largest score grows, and sums that were made with a smaller maximum are scaled
// down (Milakov & Gimelshein 2018).
__global__ void attention_kernel(Head head, const float* qkv, float* out, float* log_sums) {
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned position = position_of_warp(head);
  if (position == head.length) return;
  float* const sums = shared_memory<float>() + threadIdx.x / warp_threads * head.size;
  for (unsigned i = lane; i < head.size; i += warp_threads) sums[i] = 0;
  const float* const query = qkv + head.in_qkv(0, position);
  const float scale = 1 / sqrtf(static_cast<float>(head.size));
  float largest = -INFINITY, total = 0;
  for (unsigned first = 0; first <= position; first += warp_threads) {
    const unsigned count = smaller(warp_threads, position - first + 1), on = first + lane;
    const float score = lane < count ? scale * head.product(query, qkv + head.in_qkv(1, on)) : -INFINITY;
    const float largest_now = Max()(largest, reduce_warp(score, Max()));
    const float shrink = expf(largest - largest_now), weight = lane < count ? expf(score - largest_now) : 0;
    total = total * shrink + reduce_warp(weight, Sum());
    for (unsigned i = lane; i < head.size; i += warp_threads) sums[i] *= shrink;
    add_weighted(sums, head.size, weight, count,
                 [&](unsigned other) { return qkv + head.in_qkv(2, first + other); });
    largest = largest_now;
  }
  float* const result = out + head.in_out(position);
  for (unsigned i = lane; i < head.size; i += warp_threads) result[i] = sums[i] / total;
  if (lane == 0) log_sums[head.in_sums(position)] = largest + logf(total);
}

// weight: how much the value of position `on` counts in the output of position `of`. by_product: the gradient
// by query . key, with the query of position `of` and the key of position `on`.
struct Pair {
  float weight, by_product;
};
__device__ Pair pair_of(const Head& head, unsigned of, unsigned on, const float* qkv, const float* out,
                        const float* log_sums, const float* delta) {
  const float scale = 1 / sqrtf(static_cast<float>(head.size));
  const float *d = delta + head.in_out(of), *o = out + head.in_out(of);
  const float score = scale * head.product(qkv + head.in_qkv(0, of), qkv + head.in_qkv(1, on));
  const float weight = expf(score - log_sums[head.in_sums(of)]);
  const float by_weight = head.product(d, qkv + head.in_qkv(2, on));
  return {weight, weight * (by_weight - head.product(d, o)) * scale};
}

__global__ void by_query_kernel(Head head, const float* qkv, const float* out, const float* log_sums,
                                const float* delta, float* qkv_gradient) {
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned position = position_of_warp(head);
  if (position == head.length) return;
  float* const sums = shared_memory<float>() + threadIdx.x / warp_threads * head.size;
  for (unsigned i = lane; i < head.size; i += warp_threads) sums[i] = 0;
  for (unsigned first = 0; first <= position; first += warp_threads) {
    const unsigned count = smaller(warp_threads, position - first + 1);
    Pair pair{0, 0};
    if (lane < count) pair = pair_of(head, position, first + lane, qkv, out, log_sums, delta);
    add_weighted(sums, head.size, pair.by_product, count,
                 [&](unsigned other) { return qkv + head.in_qkv(1, first + other); });
  }
  float* const result = qkv_gradient + head.in_qkv(0, position);
  for (unsigned i = lane; i < head.size; i += warp_threads) result[i] = sums[i];
}

__global__ void by_key_and_value_kernel(Head head, const float* qkv, const float* out, const float* log_sums,
                                        const float* delta, float* qkv_gradient) {
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned position = position_of_warp(head);
  if (position == head.length) return;
  float* const keys = shared_memory<float>() + threadIdx.x / warp_threads * 2 * head.size;
  float* const values = keys + head.size;
  for (unsigned i = lane; i < head.size; i += warp_threads) keys[i] = values[i] = 0;
  for (unsigned first = position; first < head.length; first += warp_threads) {
    const unsigned count = smaller(warp_threads, head.length - first);
    Pair pair{0, 0};
    if (lane < count) pair = pair_of(head, first + lane, position, qkv, out, log_sums, delta);
    add_weighted(keys, head.size, pair.by_product, count,
                 [&](unsigned other) { return qkv + head.in_qkv(0, first + other); });
    add_weighted(values, head.size, pair.weight, count,
                 [&](unsigned other) { return delta + head.in_out(first + other); });
  }
  for (unsigned i = lane; i < head.size; i += warp_threads) {
    qkv_gradient[head.in_qkv(1, position) + i] = keys[i];
    qkv_gradient[head.in_qkv(2, position) + i] = values[i];
  }
}

Head head_of(const AttentionShape& shape) {
  return {static_cast<unsigned>(shape.length), static_cast<unsigned>(shape.heads),
          static_cast<unsigned>(shape.head_size), 0};
}

// vectors: how many vectors of head_size numbers each warp adds up.
Grid grid_of(const AttentionShape& shape, unsigned vectors) {
  const unsigned blocks = divide_up(static_cast<std::size_t>(shape.length), warps_of_block);
  return {static_cast<unsigned>(shape.batch * shape.heads) * blocks, warps_of_block * warp_threads,
          warps_of_block * vectors * static_cast<unsigned>(shape.head_size) * sizeof(float)};
}

}  // namespace

void attention(cudaStream_t stream, const AttentionShape& shape, const float* qkv, float* out,
               float* log_sums) {
  launch(grid_of(shape, 1), stream, attention_kernel, head_of(shape), qkv, out, log_sums);
}

void attention_backward(cudaStream_t stream, const AttentionShape& shape, const float* qkv, const float* out,
                        const float* log_sums, const float* delta, float* qkv_gradient) {
  launch(grid_of(shape, 1), stream, by_query_kernel, head_of(shape), qkv, out, log_sums, delta, qkv_gradient);
  launch(grid_of(shape, 2), stream, by_key_and_value_kernel, head_of(shape), qkv, out, log_sums, delta,
         qkv_gradient);
}

}  // namespace mlk::cuda
