// Operations on each number by itself: one thread for each, in rounds of the whole grid.
#pragma once

#include "kernels/cuda/cuda.h"

namespace mlk::cuda {

inline constexpr unsigned most_blocks = 1024;

inline Grid grid_for(std::size_t size) {
  constexpr unsigned threads = 256;
  const unsigned blocks = divide_up(size, threads);
  return {blocks < most_blocks ? blocks : most_blocks, threads};
}

// Calls work(i) for the numbers of this thread.
template <typename Work>
__device__ void for_each(std::size_t size, Work work) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) work(i);
}

__host__ __device__ constexpr std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace mlk::cuda
