// Tokens as vectors. In the backward pass a thread has one column of the table, and goes through the rows in
// their order: so the sums are the same bits in every run, without atomic additions.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

__global__ void embed_kernel(std::size_t size, int length, int columns, const std::int32_t* tokens,
                             const float* token_table, const float* position_table, float* out) {
  const auto width = static_cast<std::size_t>(columns);
  for_each(size, [=](std::size_t i) {
    const std::size_t row = i / width, column = i % width;
    out[i] = token_table[static_cast<std::size_t>(tokens[row]) * width + column] +
             position_table[row % static_cast<std::size_t>(length) * width + column];
  });
}

__global__ void by_token_kernel(int rows, int columns, const std::int32_t* tokens, const float* delta,
                                float* token_gradient) {
  const auto width = static_cast<std::size_t>(columns);
  for_each(width, [=](std::size_t column) {
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
      token_gradient[static_cast<std::size_t>(tokens[row]) * width + column] += delta[row * width + column];
  });
}

// size: of the gradient, length * columns.
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
  launch(grid_for(size), stream, embed_kernel, size, length, columns, tokens, token_table, position_table,
         out);
}

void embed_backward(cudaStream_t stream, int rows, int length, int columns, const std::int32_t* tokens,
                    const float* delta, float* token_gradient, float* position_gradient) {
  launch(grid_for(static_cast<std::size_t>(columns)), stream, by_token_kernel, rows, columns, tokens, delta,
         token_gradient);
  launch(grid_for(area(length, columns)), stream, by_position_kernel, area(length, columns),
         area(rows, columns), delta, position_gradient);
}

}  // namespace mlk::cuda
