// Causal self-attention for heads of 64 and 128 numbers, backward. Weights are computed again from log_sums
// (Dao et al. 2022). In one kernel a block has keys and values of its own and iterates over the queries from
// the diagonal on. In the other kernel a block has queries of its own and iterates over the keys up to the
// diagonal. So each sum has its own warp, and no additions are atomic. The two kernels need 7 products of
// tiles instead of 5, but results have the same bits in every run.
//
// P are the weights, dO is delta, D has the product out . delta of each query, and * multiplies number by
// number. The gradient by the products of queries and keys is dS = P * (dO V^T - D) / sqrt(head_size). Then
// dQ = dS K, dK = dS^T Q and dV = P^T dO.
#include "kernels/cuda/attention/attention_engines.h"

namespace mlk::cuda {
namespace {

constexpr unsigned prepare_warps = 4;

template <typename Engine>
using Memory = AttentionMemory<Engine, 2>;

// Each warp handles one head of one position, in the order of `out`.
__global__ void prepare_kernel(Heads heads, std::size_t rows, const float* out, const float* delta,
                               BFloat16* rounded, float* dots) {
  const unsigned lane = threadIdx.x % warp_threads;
  const std::size_t row = std::size_t{blockIdx.x} * prepare_warps + threadIdx.x / warp_threads;
  if (row >= rows) return;
  float dot = 0;
  for (std::size_t i = row * heads.size + lane * 2; i < (row + 1) * heads.size; i += warp_threads * 2) {
    const float2 o = *reinterpret_cast<const float2*>(out + i),
                 d = *reinterpret_cast<const float2*>(delta + i);
    dot = fmaf(o.x, d.x, fmaf(o.y, d.y, dot));
    if (rounded) *reinterpret_cast<std::uint32_t*>(rounded + i) = pair_of(d.x, d.y);
  }
  dot = reduce_warp(dot, Sum());
  const std::size_t position = row / heads.heads, head = row % heads.heads;
  const std::size_t sequence = position / heads.length;
  if (lane == 0) dots[(sequence * heads.heads + head) * heads.length + position % heads.length] = dot;
}

// The weight of a score. log_sum: the log_sum of the score's query.
template <typename Engine>
__device__ float weight_of(float score, float log_sum) {
  return exp2f(fmaf(score, score_scale<Engine::size> * log2_of_e, -log_sum * log2_of_e));
}
template <typename Engine>
__device__ float by_score(float weight, float by_weight, float dot) {
  return weight * (by_weight - dot) * score_scale<Engine::size>;
}

template <typename Engine>
__global__ void __launch_bounds__(Memory<Engine>::threads)
    by_key_kernel(Heads heads, const typename Engine::Number* qkv, const float* log_sums,
                  const typename Engine::Number* delta, const float* dots, float* qkv_gradient) {
  constexpr unsigned step = Engine::step, own = Memory<Engine>::own;
  const Memory<Engine> memory{shared_memory<typename Engine::Number>()};
  const auto bring_queries = [&](unsigned number) {
    memory.template bring<step>(heads.in_qkv(qkv, 0), number * step, memory.tile(number, 0));
    memory.template bring<step>(heads.in_out(delta), number * step, memory.tile(number, 1));
    for (unsigned i = threadIdx.x; i < step; i += Memory<Engine>::threads) {
      const bool inside = number * step + i < heads.length;
      const std::size_t at = heads.in_sums(inside ? number * step + i : 0);
      copy_async<4>(memory.of_queries(number, 0) + i, log_sums + at, inside ? 4 : 0);
      copy_async<4>(memory.of_queries(number, 1) + i, dots + at, inside ? 4 : 0);
    }
    end_copies();
  };
  const unsigned first = blockIdx.x * own, warp_row = threadIdx.x / warp_threads * Engine::rows;
  const unsigned end = divide_up(heads.length, step);
  for (unsigned part : {0u, 1u})
    memory.template bring<own>(heads.in_qkv(qkv, 1 + part), first, memory.own_tile(part));
  bring_queries(first / step);
  typename Engine::Means by_key, by_value;
  for (unsigned number = first / step; number < end; ++number) {
    wait_for_copies<0>();
    __syncthreads();  // all copies are visible, and no thread reads what the next copies overwrite
    if (number + 1 < end) bring_queries(number + 1);
    typename Engine::Scores weights, products;  // rows: own keys; columns: queries
    weights.multiply(memory.own_tile(0), warp_row, memory.tile(number, 0));
    const float* const log_sum = memory.of_queries(number, 0);
    // Beyond the end of the sequence, the weights are 1, and all other numbers are 0. So the products of
    // these weights are 0.
    weights.each([&](unsigned, unsigned row, unsigned column, float& weight) {
      const bool seen = first + warp_row + row <= number * step + column;
      weight = seen ? weight_of<Engine>(weight, log_sum[column]) : 0;
    });
    by_value.add(weights, memory.tile(number, 1), memory.scratch());
    products.multiply(memory.own_tile(1), warp_row, memory.tile(number, 1));
    products.join(weights, [&](unsigned, unsigned column, float& product, float weight) {
      product = by_score<Engine>(weight, product, memory.of_queries(number, 1)[column]);
    });
    by_key.add(products, memory.tile(number, 0), memory.scratch());
  }
  by_key.put(heads.in_qkv(qkv_gradient, 1), first + warp_row);
  by_value.put(heads.in_qkv(qkv_gradient, 2), first + warp_row);
}

template <typename Engine>
__global__ void __launch_bounds__(Memory<Engine>::threads)
    by_query_kernel(Heads heads, const typename Engine::Number* qkv, const float* log_sums,
                    const typename Engine::Number* delta, const float* dots, float* qkv_gradient) {
  constexpr unsigned step = Engine::step, own = Memory<Engine>::own;
  const Memory<Engine> memory{shared_memory<typename Engine::Number>()};
  const auto bring_keys = [&](unsigned number) {
    for (unsigned part : {0u, 1u})
      memory.template bring<step>(heads.in_qkv(qkv, 1 + part), number * step, memory.tile(number, part));
    end_copies();
  };
  const unsigned first = (gridDim.x - 1 - blockIdx.x) * own;  // blocks with the most keys begin first
  const unsigned warp_row = threadIdx.x / warp_threads * Engine::rows;
  const unsigned end = divide_up(first + own < heads.length ? first + own : heads.length, step);
  float log_sum[Engine::rows_of_lane] = {}, dot[Engine::rows_of_lane] = {};
#pragma unroll
  for (unsigned i = 0; i < Engine::rows_of_lane; ++i) {
    const unsigned query = first + warp_row + Engine::row_of(i);
    if (query >= heads.length) continue;
    log_sum[i] = log_sums[heads.in_sums(query)];
    dot[i] = dots[heads.in_sums(query)];
  }
  memory.template bring<own>(heads.in_qkv(qkv, 0), first, memory.own_tile(0));
  memory.template bring<own>(heads.in_out(delta), first, memory.own_tile(1));
  bring_keys(0);
  typename Engine::Means by_query;
  for (unsigned number = 0; number < end; ++number) {
    wait_for_copies<0>();
    __syncthreads();  // all copies are visible, and no thread reads what the next copies overwrite
    if (number + 1 < end) bring_keys(number + 1);
    typename Engine::Scores weights, products;  // rows: own queries; columns: keys
    weights.multiply(memory.own_tile(0), warp_row, memory.tile(number, 0));
    products.multiply(memory.own_tile(1), warp_row, memory.tile(number, 1));
    weights.each([&](unsigned i, unsigned row, unsigned column, float& weight) {
      const bool seen = number * step + column <= first + warp_row + row;
      weight = seen ? weight_of<Engine>(weight, log_sum[i]) : 0;
    });
    products.join(weights, [&](unsigned i, unsigned, float& product, float weight) {
      product = by_score<Engine>(weight, product, dot[i]);
    });
    by_query.add(products, memory.tile(number, 0), memory.scratch());
  }
  by_query.put(heads.in_qkv(qkv_gradient, 0), first + warp_row);
}

template <typename Engine>
void backward(cudaStream_t stream, const AttentionShape& shape, const typename Engine::Number* qkv,
              const float* log_sums, const typename Engine::Number* delta, const float* dots,
              float* qkv_gradient) {
  const Grid grid{dim3(divide_up(static_cast<std::size_t>(shape.length), Memory<Engine>::own),
                       static_cast<unsigned>(shape.batch * shape.heads)),
                  Memory<Engine>::threads, Memory<Engine>::bytes};
  if (grid.blocks.y == 0) return;
  const Heads heads = heads_of(shape);
  launch(grid, stream, by_key_kernel<Engine>, heads, qkv, log_sums, delta, dots, qkv_gradient);
  launch(grid, stream, by_query_kernel<Engine>, heads, qkv, log_sums, delta, dots, qkv_gradient);
}

}  // namespace

void prepare_backward(cudaStream_t stream, const AttentionShape& shape, const float* out, const float* delta,
                      BFloat16* rounded, float* dots) {
  const auto rows =
      static_cast<std::size_t>(shape.batch * shape.length) * static_cast<std::size_t>(shape.heads);
  launch({divide_up(rows, prepare_warps), prepare_warps * warp_threads}, stream, prepare_kernel,
         heads_of(shape), rows, out, delta, rounded, dots);
}

void attention_fast_backward(cudaStream_t stream, const AttentionShape& shape, const float* qkv,
                             const float* log_sums, const float* delta, const float* dots,
                             float* qkv_gradient) {
  const auto of_size = shape.head_size == 64 ? backward<Floats<64, 32>> : backward<Floats<128, 16>>;
  of_size(stream, shape, qkv, log_sums, delta, dots, qkv_gradient);
}

void attention_backward_bfloat16(cudaStream_t stream, const AttentionShape& shape, const BFloat16* qkv,
                                 const float* log_sums, const BFloat16* delta, const float* dots,
                                 float* qkv_gradient) {
  const auto of_size =
      shape.head_size == 64 ? backward<TensorCores<64, 2, 32>> : backward<TensorCores<128, 1, 32>>;
  of_size(stream, shape, qkv, log_sums, delta, dots, qkv_gradient);
}

}  // namespace mlk::cuda
