// Causal self-attention by tensor cores, backward. Weights are computed again from log_sums (Dao et al.
// 2022). One kernel has 64 keys and values a block and goes through the queries from the diagonal on, the
// other has 64 queries and goes through the keys up to it. So each sum has its own warp, and no additions are
// atomic: for 7 products of tiles in place of 5, results are the same bits in every run.
//
// With P the weights and D the products out . delta: dV = P^T dO, dS = P (dO V^T - D), dQ = dS K, dK = dS^T
// Q.
#include "kernels/cuda/attention_tiles.h"

namespace mlk::cuda {
namespace {

using kernels::AttentionShape;

constexpr unsigned own = 64;  // positions of a block
// Positions that it goes through at a time: so many that the sums of a lane stay in its registers.
template <unsigned size>
constexpr unsigned step = size == 64 ? 64 : 32;

__global__ void prepare_kernel(Heads heads, unsigned size, std::size_t rows, const float* out,
                               const float* delta, BFloat16* rounded, float* dots) {
  const unsigned lane = threadIdx.x % warp_threads;
  // Of a position and a head, in the order of `out`.
  const std::size_t row = std::size_t{blockIdx.x} * attention_warps + threadIdx.x / warp_threads;
  if (row >= rows) return;
  float dot = 0;
  for (std::size_t i = row * size + lane * 2; i < (row + 1) * size; i += warp_threads * 2) {
    const float2 o = *reinterpret_cast<const float2*>(out + i),
                 d = *reinterpret_cast<const float2*>(delta + i);
    dot = fmaf(o.x, d.x, fmaf(o.y, d.y, dot));
    *reinterpret_cast<std::uint32_t*>(rounded + i) = pair_of(d.x, d.y);
  }
  dot = reduce_warp(dot, Sum());
  const std::size_t position = row / heads.heads, head = row % heads.heads;
  const std::size_t sequence = position / heads.length;
  if (lane == 0) dots[(sequence * heads.heads + head) * heads.length + position % heads.length] = dot;
}

// Shared memory: two tiles of the block's own positions, then two stages of two tiles of others.
template <unsigned size>
struct Shared {
  BFloat16* numbers;

  __device__ Tile<size> own_tile(unsigned which) const { return {numbers + which * own * size}; }
  __device__ Tile<size> tile(unsigned number, unsigned which) const {
    return {numbers + (2 * own + (number % 2 * 2 + which) * step<size>)*size};
  }
  // Two numbers of each query of a stage: its sum, and its product out . delta.
  __device__ float* of_queries(unsigned number, unsigned which) const {
    return reinterpret_cast<float*>(numbers + (2 * own + 4 * step<size>)*size) +
           (number % 2 * 2 + which) * step<size>;
  }
  static constexpr unsigned bytes =
      (2 * own + 4 * step<size>)*size * sizeof(BFloat16) + 4 * step<size> * sizeof(float);
};

// The weight for a score. log_sum: of its query.
__device__ float weight_of(float score, float scale, float log_sum) {
  return exp2f(fmaf(score, scale * log2_of_e, -log_sum * log2_of_e));
}

// scores[16 keys][step queries] become weights, and products their gradients.
template <unsigned size>
__device__ void weigh_by_key(Sums (&scores)[step<size> / 8], Sums (&products)[step<size> / 8],
                             const Shared<size>& shared, unsigned number, unsigned first_key,
                             unsigned length) {
  const unsigned lane = threadIdx.x % warp_threads;
  const float scale = 1 / sqrtf(static_cast<float>(size));
  const float *const log_sums = shared.of_queries(number, 0), *const dots = shared.of_queries(number, 1);
#pragma unroll
  for (unsigned j = 0; j < step<size> / 8; ++j) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned at = j * 8 + lane % 4 * 2 + i % 2, query = number * step<size> + at;
      const unsigned key = first_key + lane / 4 + i / 2 * 8;
      const bool seen = key <= query && query < length;
      const float weight = seen ? weight_of(scores[j][i], scale, log_sums[at]) : 0;
      scores[j][i] = weight;
      products[j][i] = seen ? weight * (products[j][i] - dots[at]) * scale : 0;
    }
  }
}

template <unsigned size>
__global__ void __launch_bounds__(attention_threads)
    by_key_kernel(Heads heads, const BFloat16* qkv, const float* log_sums, const BFloat16* delta,
                  const float* dots, float* qkv_gradient) {
  const Shared<size> shared{shared_memory<BFloat16>()};
  const auto bring_queries = [&](unsigned number) {
    const unsigned first = number * step<size>;
    bring<step<size>>(heads.in_qkv<size>(qkv, 0), first, shared.tile(number, 0));
    bring<step<size>>(heads.in_out<size>(delta), first, shared.tile(number, 1));
    for (unsigned i = threadIdx.x; i < step<size>; i += attention_threads) {
      const bool inside = first + i < heads.length;
      const std::size_t at = heads.in_sums(inside ? first + i : 0);
      copy_async<4>(shared.of_queries(number, 0) + i, log_sums + at, inside ? 4 : 0);
      copy_async<4>(shared.of_queries(number, 1) + i, dots + at, inside ? 4 : 0);
    }
    end_copies();
  };
  const unsigned first = blockIdx.x * own, warp_row = threadIdx.x / warp_threads * 16;
  const unsigned end = divide_up(heads.length, step<size>);
  for (unsigned part : {0u, 1u}) bring<own>(heads.in_qkv<size>(qkv, 1 + part), first, shared.own_tile(part));
  bring_queries(first / step<size>);
  Sums by_key[size / 8] = {}, by_value[size / 8] = {};
  for (unsigned number = first / step<size>; number < end; ++number) {
    wait_for_copies<0>();
    __syncthreads();  // all copies are seen, and nobody reads what the next ones are written over
    if (number + 1 < end) bring_queries(number + 1);
    Sums scores[step<size> / 8], products[step<size> / 8];
    multiply_by_vectors<size, step<size>>(scores, shared.own_tile(0), warp_row, shared.tile(number, 0));
    multiply_by_vectors<size, step<size>>(products, shared.own_tile(1), warp_row, shared.tile(number, 1));
    weigh_by_key<size>(scores, products, shared, number, first + warp_row, heads.length);
    add_weighted<size, step<size>>(by_value, scores, shared.tile(number, 1));
    add_weighted<size, step<size>>(by_key, products, shared.tile(number, 0));
  }
  const float ones[2] = {1, 1};
  put_rows<size>(by_key, ones, first + warp_row, heads.in_qkv<size>(qkv_gradient, 1));
  put_rows<size>(by_value, ones, first + warp_row, heads.in_qkv<size>(qkv_gradient, 2));
}

template <unsigned size>
__global__ void __launch_bounds__(attention_threads)
    by_query_kernel(Heads heads, const BFloat16* qkv, const float* log_sums, const BFloat16* delta,
                    const float* dots, float* qkv_gradient) {
  const Shared<size> shared{shared_memory<BFloat16>()};
  const auto bring_keys = [&](unsigned number) {
    for (unsigned part : {0u, 1u})
      bring<step<size>>(heads.in_qkv<size>(qkv, 1 + part), number * step<size>, shared.tile(number, part));
    end_copies();
  };
  const unsigned first = (gridDim.x - 1 - blockIdx.x) * own;  // those with the most keys begin first
  const unsigned warp_row = threadIdx.x / warp_threads * 16, lane = threadIdx.x % warp_threads;
  const unsigned end = divide_up(first + own < heads.length ? first + own : heads.length, step<size>);
  const float scale = 1 / sqrtf(static_cast<float>(size));
  float log_sum[2] = {}, dot[2] = {};
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned query = first + warp_row + lane / 4 + half * 8;
    if (query < heads.length)
      log_sum[half] = log_sums[heads.in_sums(query)], dot[half] = dots[heads.in_sums(query)];
  }
  bring<own>(heads.in_qkv<size>(qkv, 0), first, shared.own_tile(0));
  bring<own>(heads.in_out<size>(delta), first, shared.own_tile(1));
  bring_keys(0);
  Sums by_query[size / 8] = {};
  for (unsigned number = 0; number < end; ++number) {
    wait_for_copies<0>();
    __syncthreads();  // all copies are seen, and nobody reads what the next ones are written over
    if (number + 1 < end) bring_keys(number + 1);
    Sums scores[step<size> / 8], products[step<size> / 8];
    multiply_by_vectors<size, step<size>>(scores, shared.own_tile(0), warp_row, shared.tile(number, 0));
    multiply_by_vectors<size, step<size>>(products, shared.own_tile(1), warp_row, shared.tile(number, 1));
#pragma unroll
    for (unsigned j = 0; j < step<size> / 8; ++j) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned query = first + warp_row + lane / 4 + i / 2 * 8;
        const unsigned key = number * step<size> + j * 8 + lane % 4 * 2 + i % 2;
        const float weight = weight_of(scores[j][i], scale, log_sum[i / 2]);
        products[j][i] = key <= query ? weight * (products[j][i] - dot[i / 2]) * scale : 0;
      }
    }
    add_weighted<size, step<size>>(by_query, products, shared.tile(number, 0));
  }
  const float ones[2] = {1, 1};
  put_rows<size>(by_query, ones, first + warp_row, heads.in_qkv<size>(qkv_gradient, 0));
}

Heads heads_of(const AttentionShape& shape) {
  return {static_cast<unsigned>(shape.length), static_cast<unsigned>(shape.heads)};
}

template <unsigned size>
void launch_backward(cudaStream_t stream, const AttentionShape& shape, const BFloat16* qkv,
                     const float* log_sums, const BFloat16* delta, const float* dots, float* qkv_gradient) {
  const Grid grid{dim3(divide_up(static_cast<std::size_t>(shape.length), own),
                       static_cast<unsigned>(shape.batch * shape.heads)),
                  attention_threads, Shared<size>::bytes};
  launch(grid, stream, by_key_kernel<size>, heads_of(shape), qkv, log_sums, delta, dots, qkv_gradient);
  launch(grid, stream, by_query_kernel<size>, heads_of(shape), qkv, log_sums, delta, dots, qkv_gradient);
}

}  // namespace

void prepare_backward(cudaStream_t stream, const AttentionShape& shape, const float* out, const float* delta,
                      BFloat16* rounded, float* dots) {
  const auto rows =
      static_cast<std::size_t>(shape.batch * shape.length) * static_cast<std::size_t>(shape.heads);
  launch({divide_up(rows, attention_warps), attention_threads}, stream, prepare_kernel, heads_of(shape),
         static_cast<unsigned>(shape.head_size), rows, out, delta, rounded, dots);
}

void attention_backward_bfloat16(cudaStream_t stream, const AttentionShape& shape, const BFloat16* qkv,
                                 const float* log_sums, const BFloat16* delta, const float* dots,
                                 float* qkv_gradient) {
  if (shape.batch * shape.heads == 0) return;
  const auto backward = shape.head_size == 64 ? launch_backward<64> : launch_backward<128>;
  backward(stream, shape, qkv, log_sums, delta, dots, qkv_gradient);
}

}  // namespace mlk::cuda
