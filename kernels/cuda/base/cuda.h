// The environment of kernels. nvcc uses CUDA itself, and a C++ compiler uses the emulator
// (tests/cuda/emulator). So every kernel also runs on CPUs, under sanitizers.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <mlk_cuda_emulator.h>
#endif

#include <cstddef>
#include <utility>

namespace mlk::cuda {

inline constexpr int warp_threads = 32;
inline constexpr unsigned all_lanes = 0xffffffff;

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

constexpr unsigned divide_up(std::size_t a, std::size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

#ifdef __CUDACC__

// The shared memory of the block. It is not initialised, and has Grid::shared_bytes bytes. All of it is
// dynamic, so that the emulator can give each block memory of its own.
template <typename T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}

// Puts the kernel at the end of the stream. A block may have at most 99 KB of shared memory. A grid without
// blocks does nothing. Errors: cudaGetLastError().
template <typename... Parameters, typename... Arguments>
void launch(const Grid& grid, cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  if (grid.blocks.x == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  constexpr std::size_t without_asking = 48 * 1024;
  if (grid.shared_bytes > without_asking)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(grid.shared_bytes));
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

#else

template <typename T>
T* shared_memory() {
  return static_cast<T*>(emulator::shared_memory());
}

template <typename... Parameters, typename... Arguments>
void launch(const Grid& grid, cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  if (grid.blocks.x == 0) return;
  const auto extent = [](const dim3& of) { return emulator::Extent{of.x, of.y, of.z}; };
  const emulator::Launch shape{extent(grid.blocks), extent(grid.threads), grid.shared_bytes};
  emulator::enqueue(
      stream, [=] { emulator::run_grid(shape, [=] { kernel(static_cast<Parameters>(arguments)...); }); });
}

#endif

}  // namespace mlk::cuda
