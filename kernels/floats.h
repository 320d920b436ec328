// Arrays of floats in host memory. They begin at a cache line, so that SIMD vectors at multiples of their
// size do not cross cache lines. Tensors of a model lie in buffers instead (buffer.h).
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace mlk::kernels {

template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t line{64};

  CacheLineAllocator() = default;
  template <typename U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), line)); }
  void deallocate(T* place, std::size_t) { ::operator delete(place, line); }
  bool operator==(const CacheLineAllocator&) const = default;
};

using Floats = std::vector<float, CacheLineAllocator<float>>;

}  // namespace mlk::kernels
