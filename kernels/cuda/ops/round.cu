// Rounding to bfloat16. In padded rows a thread makes 8 numbers and stores them at once.
#include "kernels/cuda/base/bfloat16.h"
#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {
namespace {

struct alignas(16) Piece {
  BFloat16 numbers[8];
};

__global__ void round_kernel(std::size_t rows, std::size_t columns, const float* x, Piece* out) {
  const std::size_t pieces = padded(columns) / 8;
  const bool aligned = columns % 8 == 0 && is_aligned(x);
  for_each(rows * pieces, [=](std::size_t i) {
    const std::size_t row = i / pieces, first = i % pieces * 8;
    const float* const from = x + row * columns + first;
    float values[8];
    if (aligned) {
      *reinterpret_cast<float4*>(values) = *reinterpret_cast<const float4*>(from);
      *reinterpret_cast<float4*>(values + 4) = *reinterpret_cast<const float4*>(from + 4);
    } else {
      for (unsigned j = 0; j < 8; ++j) values[j] = first + j < columns ? from[j] : 0;
    }
    Piece piece;
    for (unsigned j = 0; j < 8; ++j) piece.numbers[j] = kernels::to_bfloat16(values[j]);
    out[i] = piece;
  });
}

__global__ void round_numbers_kernel(std::size_t size, std::size_t head, const float* x, BFloat16* out) {
  for_each_wide(size, head, [=](auto width, std::size_t i) { store(out + i, load<width>(x + i)); });
}

}  // namespace

void round_numbers(cudaStream_t stream, std::size_t size, const float* x, BFloat16* out) {
  launch(wide_grid_for(size), stream, round_numbers_kernel, size, head_of(size, x), x, out);
}

void round_to_bfloat16(cudaStream_t stream, std::size_t rows, std::size_t columns, const float* x,
                       BFloat16* out) {
  launch(grid_for(rows * padded(columns) / 8), stream, round_kernel, rows, columns, x,
         reinterpret_cast<Piece*>(out));
}

}  // namespace mlk::cuda
