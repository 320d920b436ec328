// Tokens as vectors. In the backward pass each block handles one row of delta. If no earlier row has the same
// token, the block searches for the later rows that have this token, 128 at a time, and adds up these rows.
// Each number of the gradient is added up in the order of the rows. So the sums have the same bits in every
// run, and no addition is atomic.
#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {
namespace {

__global__ void embed_kernel(std::size_t size, std::size_t head, int length, int columns,
                             const std::int32_t* tokens, const float* token_table,
                             const float* position_table, float* out) {
  const auto columns_of_row = static_cast<std::size_t>(columns);
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    const std::size_t row = i / columns_of_row, column = i % columns_of_row;
    auto numbers = load<width>(token_table + static_cast<std::size_t>(tokens[row]) * columns_of_row + column);
    const auto others =
        load<width>(position_table + row % static_cast<std::size_t>(length) * columns_of_row + column);
    for (unsigned j = 0; j < width; ++j) numbers.of[j] += others.of[j];
    store(out + i, numbers);
  });
}

constexpr unsigned rows_at_a_time = 128, warps_of_block = rows_at_a_time / warp_threads;

struct Found {
  unsigned counts[warps_of_block];  // by warp
  unsigned rows[rows_at_a_time];
};

// Whether one of the rows from `begin` to `end` - 1 has the token; all threads get the answer.
__device__ bool is_among(const std::int32_t* tokens, unsigned begin, unsigned end, std::int32_t token,
                         Found* found) {
  bool any = false;
  for (unsigned first = begin + threadIdx.x / warp_threads * warp_threads; first < end && !any;
       first += rows_at_a_time) {
    const unsigned row = first + threadIdx.x % warp_threads;
    any = __ballot_sync(all_lanes, row < end && tokens[row] == token) != 0;
  }
  if (threadIdx.x % warp_threads == 0) found->counts[threadIdx.x / warp_threads] = any;
  __syncthreads();
  for (const unsigned count : found->counts) any = any || count != 0;
  __syncthreads();  // before the counts are overwritten
  return any;
}

// Finds the rows from `first` to `first` + 127 that have the token, in order, and returns how many there are.
// The result of the previous call is overwritten after a barrier.
__device__ unsigned find(const std::int32_t* tokens, unsigned first, unsigned rows, std::int32_t token,
                         Found* found) {
  const unsigned row = first + threadIdx.x, lane = threadIdx.x % warp_threads,
                 warp = threadIdx.x / warp_threads;
  const bool is = row < rows && tokens[row] == token;
  const unsigned lanes = __ballot_sync(all_lanes, is);
  if (lane == 0) found->counts[warp] = static_cast<unsigned>(__popc(lanes));
  __syncthreads();
  unsigned before = static_cast<unsigned>(__popc(lanes & ((1u << lane) - 1))), all = 0;
  for (unsigned other = 0; other < warps_of_block; ++other) {
    if (other < warp) before += found->counts[other];
    all += found->counts[other];
  }
  if (is) found->rows[before] = row;
  __syncthreads();
  return all;
}

__global__ void by_token_kernel(unsigned rows, unsigned columns, const std::int32_t* tokens,
                                const float* delta, float* token_gradient) {
  auto* const found = shared_memory<Found>();
  const std::int32_t token = tokens[blockIdx.x];
  if (is_among(tokens, 0, blockIdx.x, token, found)) return;
  float* const gradient = token_gradient + std::size_t{static_cast<unsigned>(token)} * columns;
  for (unsigned first = blockIdx.x; first < rows; first += rows_at_a_time) {
    const unsigned count = find(tokens, first, rows, token, found);
    for (unsigned column = threadIdx.x; count > 0 && column < columns; column += rows_at_a_time) {
      float sum = gradient[column];
#pragma unroll 4
      for (unsigned i = 0; i < count; ++i) sum += delta[std::size_t{found->rows[i]} * columns + column];
      gradient[column] = sum;
    }
  }
}

// size: the size of the gradient, length * columns.
__global__ void by_position_kernel(std::size_t size, std::size_t of_delta, const float* delta,
                                   float* position_gradient) {
  for_each(size, [=](std::size_t i) {
    float sum = 0;
    for (std::size_t at = i; at < of_delta; at += size) sum += delta[at];
    position_gradient[i] = sum;
  });
}

}  // namespace

void embed(cudaStream_t stream, int rows, int length, int columns, const std::int32_t* tokens,
           const float* token_table, const float* position_table, float* out) {
  const std::size_t size = area(rows, columns);
  const bool aligned = are_aligned_rows(columns, token_table, position_table, out);
  launch(wide_grid_for(size), stream, embed_kernel, size, aligned ? 0 : size, length, columns, tokens,
         token_table, position_table, out);
}

void embed_backward(cudaStream_t stream, int rows, int length, int columns, const std::int32_t* tokens,
                    const float* delta, float* token_gradient, float* position_gradient) {
  launch({static_cast<unsigned>(rows), rows_at_a_time, sizeof(Found)}, stream, by_token_kernel,
         static_cast<unsigned>(rows), static_cast<unsigned>(columns), tokens, delta, token_gradient);
  launch(grid_for(area(length, columns)), stream, by_position_kernel, area(length, columns),
         area(rows, columns), delta, position_gradient);
}

}  // namespace mlk::cuda
