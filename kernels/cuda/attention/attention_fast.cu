// Causal self-attention for heads of 64 and 128 numbers, forward. A block has the queries of its own
// positions and iterates over the keys and values up to its last position. Scores and weights stay in
// registers, and sums that were made with a smaller maximum are scaled down as the largest score grows
// (Milakov & Gimelshein 2018). Tiles above the diagonal are skipped.
#include "kernels/cuda/attention/attention_engines.h"

namespace mlk::cuda {
namespace {

template <typename Engine>
using Memory = AttentionMemory<Engine, 1>;

// The results for the queries of a warp.
template <typename Engine>
struct Rows {
  static constexpr unsigned own = Engine::rows_of_lane;
  typename Engine::Means means;  // not yet divided by the totals
  float largest[own], totals[own];

  __device__ Rows() {
#pragma unroll
    for (unsigned i = 0; i < own; ++i) largest[i] = -INFINITY, totals[i] = 0;
  }

  // Turns scores into weights, which are relative to the largest score so far. factor: converts a
  // score into an exponent of 2. Until the end of the loop, `totals` covers only the keys of this
  // lane.
  __device__ void weigh(typename Engine::Scores& scores, float factor) {
    float most[own];
#pragma unroll
    for (unsigned i = 0; i < own; ++i) most[i] = largest[i];
    scores.each([&](unsigned i, unsigned, unsigned, float& score) { most[i] = Max()(most[i], score); });
#pragma unroll
    for (unsigned i = 0; i < own; ++i) {
      most[i] = reduce_row<Engine>(most[i], Max());
      const float shrink = exp2f((largest[i] - most[i]) * factor);
      largest[i] = most[i];
      totals[i] *= shrink;
      means.scale(i, shrink);
    }
    scores.each([&](unsigned i, unsigned, unsigned, float& score) {
      score = exp2f(fmaf(score, factor, -most[i] * factor));
      totals[i] += score;
    });
  }
};

template <typename Engine>
__global__ void __launch_bounds__(Memory<Engine>::threads)
    forward_kernel(Heads heads, const typename Engine::Number* qkv, float* out, float* log_sums) {
  constexpr unsigned keys = Engine::step, own = Memory<Engine>::own;
  const Memory<Engine> memory{shared_memory<typename Engine::Number>()};
  const auto bring_tile = [&](unsigned number) {
    for (unsigned part : {0u, 1u})
      memory.template bring<keys>(heads.in_qkv(qkv, 1 + part), number * keys, memory.tile(number, part));
    end_copies();
  };
  const unsigned first = (gridDim.x - 1 - blockIdx.x) * own;  // blocks with the most keys begin first
  const unsigned warp_row = threadIdx.x / warp_threads * Engine::rows;
  const unsigned tiles = divide_up(first + own < heads.length ? first + own : heads.length, keys);
  constexpr float scale = score_scale<Engine::size>;
  memory.template bring<own>(heads.in_qkv(qkv, 0), first, memory.own_tile(0));
  bring_tile(0);
  Rows<Engine> rows;
  for (unsigned number = 0; number < tiles; ++number) {
    wait_for_copies<0>();
    __syncthreads();  // all copies are visible, and no thread reads what the next copies overwrite
    if (number + 1 < tiles) bring_tile(number + 1);
    typename Engine::Scores scores;
    scores.multiply(memory.own_tile(0), warp_row, memory.tile(number, 0));
    if ((number + 1) * keys > first) {  // on the diagonal, where a query must not see later keys
      scores.each([&](unsigned, unsigned row, unsigned column, float& score) {
        if (number * keys + column > first + warp_row + row) score = -INFINITY;
      });
    }
    rows.weigh(scores, scale * log2_of_e);
    rows.means.add(scores, memory.tile(number, 1), memory.scratch());
  }
#pragma unroll
  for (unsigned i = 0; i < Engine::rows_of_lane; ++i) {
    const float total = reduce_row<Engine>(rows.totals[i], Sum());
    const unsigned query = first + warp_row + Engine::row_of(i);
    rows.means.scale(i, 1 / total);
    if (threadIdx.x % Engine::lanes_of_row == 0 && query < heads.length)
      log_sums[heads.in_sums(query)] = rows.largest[i] * scale + logf(total);
  }
  rows.means.put(heads.in_out(out), first + warp_row);
}

template <typename Engine>
void forward(cudaStream_t stream, const AttentionShape& shape, const typename Engine::Number* qkv, float* out,
             float* log_sums) {
  const Grid grid{dim3(divide_up(static_cast<std::size_t>(shape.length), Memory<Engine>::own),
                       static_cast<unsigned>(shape.batch * shape.heads)),
                  Memory<Engine>::threads, Memory<Engine>::bytes};
  if (grid.blocks.y > 0) launch(grid, stream, forward_kernel<Engine>, heads_of(shape), qkv, out, log_sums);
}

}  // namespace

void attention_fast(cudaStream_t stream, const AttentionShape& shape, const float* qkv, float* out,
                    float* log_sums) {
  const auto of_size = shape.head_size == 64 ? forward<Floats<64, 32>> : forward<Floats<128, 32>>;
  of_size(stream, shape, qkv, out, log_sums);
}

void attention_bfloat16(cudaStream_t stream, const AttentionShape& shape, const BFloat16* qkv, float* out,
                        float* log_sums) {
  const auto of_size =
      shape.head_size == 64 ? forward<TensorCores<64, 2, 64>> : forward<TensorCores<128, 2, 32>>;
  of_size(stream, shape, qkv, out, log_sums);
}

}  // namespace mlk::cuda
