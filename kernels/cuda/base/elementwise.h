// Elementwise operations: grid-stride loops over the numbers, with loads and stores of 16 bytes where
// possible.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/base/cuda.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {

inline constexpr unsigned most_blocks = 1024;

inline Grid grid_for(std::size_t size) {
  constexpr unsigned threads = 256;
  const unsigned blocks = divide_up(size, threads);
  return {blocks < most_blocks ? blocks : most_blocks, threads};
}

// For operations on four numbers at a time.
inline Grid wide_grid_for(std::size_t size) { return grid_for((size + 3) / 4); }

__device__ inline std::size_t thread_of_grid() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t threads_of_grid() { return std::size_t{gridDim.x} * blockDim.x; }

// Calls work(i) for the numbers of this thread.
template <typename Work>
__device__ void for_each(std::size_t size, Work work) {
  for (std::size_t i = thread_of_grid(); i < size; i += threads_of_grid()) work(i);
}

// One number, or four that follow each other and are aligned to 16 bytes.
template <unsigned width>
struct Numbers {
  float of[width];
};
template <unsigned width>
__device__ Numbers<width> load(const float* from) {
  if constexpr (width == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {{four.x, four.y, four.z, four.w}};
  } else {
    return {{*from}};
  }
}
template <unsigned width>
__device__ void store(float* to, const Numbers<width>& numbers) {
  if constexpr (width == 4) {
    *reinterpret_cast<float4*>(to) = {numbers.of[0], numbers.of[1], numbers.of[2], numbers.of[3]};
  } else {
    *to = numbers.of[0];
  }
}

// Rounds and stores the numbers. Four rounded numbers need an address that is aligned to 8 bytes.
template <unsigned width>
__device__ void store(BFloat16* to, const Numbers<width>& numbers) {
  if constexpr (width == 4) {
    const auto pair = [&](unsigned first) {
      return kernels::to_bfloat16(numbers.of[first]).bits |
             static_cast<unsigned>(kernels::to_bfloat16(numbers.of[first + 1]).bits) << 16;
    };
    *reinterpret_cast<uint2*>(to) = {pair(0), pair(2)};
  } else {
    *to = kernels::to_bfloat16(numbers.of[0]);
  }
}

// How many numbers come before the first index at which all of these tensors are aligned to 16 bytes; `size`
// if there is no such index.
template <typename... Tensors>
__host__ __device__ std::size_t head_of(std::size_t size, const float* first, const Tensors*... others) {
  const auto place = [](const float* tensor) { return reinterpret_cast<std::uintptr_t>(tensor) / 4 % 4; };
  const std::size_t head = (4 - place(first)) % 4;
  const bool alike = ((place(others) == place(first)) && ...);
  return alike && head < size ? head : size;
}

// Whether the rows of these matrices, and vectors that belong to their columns, are aligned to 16 bytes.
template <typename... Tensors>
bool are_aligned_rows(int columns, const Tensors*... tensors) {
  return columns % 4 == 0 && (is_aligned(tensors) && ...);
}

// `threads` threads share the numbers, and `thread` is the index of the calling thread. Calls work(width, i)
// for `width` of this thread's numbers at a time, from index i on. width is a constant: 1 for the first
// `head` numbers and for the last 0 to 3 numbers, otherwise 4.
template <typename Work>
__device__ void for_each_wide(std::size_t size, std::size_t head, std::size_t thread, std::size_t threads,
                              Work work) {
  constexpr std::integral_constant<unsigned, 1> one;
  constexpr std::integral_constant<unsigned, 4> four;
  for (std::size_t i = thread; i < head; i += threads) work(one, i);
  const std::size_t fours = (size - head) / 4;
  for (std::size_t i = thread; i < fours; i += threads) work(four, head + i * 4);
  for (std::size_t i = head + fours * 4 + thread; i < size; i += threads) work(one, i);
}
template <typename Work>
__device__ void for_each_wide(std::size_t size, std::size_t head, Work work) {
  for_each_wide(size, head, thread_of_grid(), threads_of_grid(), work);
}

__host__ __device__ constexpr std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace mlk::cuda
