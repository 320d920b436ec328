// Scratch memory on the device for single operations. The memory grows to the largest size that an operation
// needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace mlk::cuda {

// How often this process has allocated memory of devices. For one thread.
inline std::uint64_t allocations = 0;

template <typename Number>
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { cudaFree(numbers_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Room for `wanted` numbers, with arbitrary content. Waits for the device when it grows.
  cudaError_t make_room(std::size_t wanted) {
    if (wanted <= size_) return cudaSuccess;
    ++allocations;
    cudaFree(numbers_);
    numbers_ = nullptr;
    size_ = 0;
    const cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&numbers_), wanted * sizeof(Number));
    if (error == cudaSuccess) size_ = wanted;
    return error;
  }
  Number* numbers() const { return numbers_; }

 private:
  Number* numbers_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mlk::cuda
