// Causal self-attention by tensor cores, forward. A block has 64 queries of a head, and goes through the keys
// and values up to the last of them, 64 at a time: while one tile is multiplied, copies bring the next. A
// warp has 16 queries. Their scores and weights stay in registers, and what was summed up with a smaller
// maximum is scaled down as the largest score grows (Milakov & Gimelshein 2018). Tiles above the diagonal are
// skipped.
#include "kernels/cuda/attention_tiles.h"

namespace mlk::cuda {
namespace {

using kernels::AttentionShape;

constexpr unsigned queries = 64, keys = 64;

// Of the 16 queries of a warp. Each lane has two of them, and a quarter of their numbers.
template <unsigned size>
struct Rows {
  Sums means[size / 8] = {};  // not yet divided by the totals
  float largest[2] = {-INFINITY, -INFINITY};
  float totals[2] = {0, 0};  // of this lane's keys

  // Turns scores into weights, which are relative to the largest score so far. factor: of scores, with
  // exponentials of base 2.
  __device__ void weigh(Sums (&scores)[keys / 8], float factor) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float most = largest[half];
#pragma unroll
      for (const Sums& pair : scores) most = Max()(most, Max()(pair[half * 2], pair[half * 2 + 1]));
      most = reduce_row(most, Max());
      const float shrink = exp2f((largest[half] - most) * factor);
      largest[half] = most;
      totals[half] *= shrink;
#pragma unroll
      for (Sums& pair : scores) {
#pragma unroll
        for (unsigned i = half * 2; i < half * 2 + 2; ++i) {
          pair[i] = exp2f(fmaf(pair[i], factor, -most * factor));
          totals[half] += pair[i];
        }
      }
#pragma unroll
      for (Sums& pair : means) pair[half * 2] *= shrink, pair[half * 2 + 1] *= shrink;
    }
  }
};

// No key after its query. first_*: of the warp and of the tile.
__device__ void mask(Sums (&scores)[keys / 8], unsigned first_query, unsigned first_key) {
  const unsigned lane = threadIdx.x % warp_threads;
#pragma unroll
  for (unsigned j = 0; j < keys / 8; ++j) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned query = first_query + lane / 4 + i / 2 * 8,
                     key = first_key + j * 8 + lane % 4 * 2 + i % 2;
      if (key > query) scores[j][i] = -INFINITY;
    }
  }
}

template <unsigned size>
__global__ void __launch_bounds__(attention_threads)
    forward_kernel(Heads heads, const BFloat16* qkv, float* out, float* log_sums) {
  BFloat16* const shared = shared_memory<BFloat16>();  // queries, then two stages of keys and values
  const auto of_keys = [shared](unsigned tile) {
    return Tile<size>{shared + (queries + tile % 2 * 2 * keys) * size};
  };
  const auto of_values = [of_keys](unsigned tile) { return Tile<size>{of_keys(tile).numbers + keys * size}; };
  const auto bring_tile = [&](unsigned tile) {
    bring<keys>(heads.in_qkv<size>(qkv, 1), tile * keys, of_keys(tile));
    bring<keys>(heads.in_qkv<size>(qkv, 2), tile * keys, of_values(tile));
    end_copies();
  };
  const unsigned first = (gridDim.x - 1 - blockIdx.x) * queries;  // those with the most keys begin first
  const unsigned warp_row = threadIdx.x / warp_threads * 16, lane = threadIdx.x % warp_threads;
  const unsigned tiles = divide_up(first + queries < heads.length ? first + queries : heads.length, keys);
  const float scale = 1 / sqrtf(static_cast<float>(size));
  bring<queries>(heads.in_qkv<size>(qkv, 0), first, Tile<size>{shared});
  bring_tile(0);
  Rows<size> rows;
  for (unsigned tile = 0; tile < tiles; ++tile) {
    wait_for_copies<0>();
    __syncthreads();  // all copies are seen, and nobody reads what the next ones are written over
    if (tile + 1 < tiles) bring_tile(tile + 1);
    Sums scores[keys / 8];
    multiply_by_vectors<size, keys>(scores, Tile<size>{shared}, warp_row, of_keys(tile));
    if ((tile + 1) * keys > first) mask(scores, first + warp_row, tile * keys);
    rows.weigh(scores, scale * log2_of_e);
    add_weighted<size, keys>(rows.means, scores, of_values(tile));
  }
  float reciprocals[2];
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const float total = reduce_row(rows.totals[half], Sum());
    const unsigned query = first + warp_row + lane / 4 + half * 8;
    reciprocals[half] = 1 / total;
    if (lane % 4 == 0 && query < heads.length)
      log_sums[heads.in_sums(query)] = rows.largest[half] * scale + logf(total);
  }
  put_rows<size>(rows.means, reciprocals, first + warp_row, heads.in_out<size>(out));
}

template <unsigned size>
void launch_forward(cudaStream_t stream, const AttentionShape& shape, const BFloat16* qkv, float* out,
                    float* log_sums) {
  const Grid grid{dim3(divide_up(static_cast<std::size_t>(shape.length), queries),
                       static_cast<unsigned>(shape.batch * shape.heads)),
                  attention_threads, (queries + 4 * keys) * size * sizeof(BFloat16)};
  launch(grid, stream, forward_kernel<size>,
         Heads{static_cast<unsigned>(shape.length), static_cast<unsigned>(shape.heads)}, qkv, out, log_sums);
}

}  // namespace

void attention_bfloat16(cudaStream_t stream, const AttentionShape& shape, const BFloat16* qkv, float* out,
                        float* log_sums) {
  if (shape.batch * shape.heads == 0) return;
  const auto forward = shape.head_size == 64 ? launch_forward<64> : launch_forward<128>;
  forward(stream, shape, qkv, out, log_sums);
}

}  // namespace mlk::cuda
