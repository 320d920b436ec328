// The parts of CUDA's language that C++ lacks, for kernels that are compiled as C++ and run by grid.h.
// NVIDIA's own headers are included first, so that types and signatures are the real ones.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cuda_runtime.h>

#include "tests/cuda/emulator/grid.h"

using std::isfinite;
using std::isnan;

#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (::mlk::emulator::thread_index())
#define blockIdx (::mlk::emulator::block_index())
#define blockDim (::mlk::emulator::block_extent())
#define gridDim (::mlk::emulator::grid_extent())

inline void __syncthreads(const mlk::emulator::Where& where = mlk::emulator::Where::current()) {
  mlk::emulator::barrier(where);
}

namespace mlk::emulator {

template <typename T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <typename T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// The value of lane `source`. If this lane takes no part, the kernel is wrong, because CUDA leaves the value
// undefined.
template <typename T>
T of_lane(unsigned mask, T value, unsigned source, const Where& where) {
  if (source < warp_size && (mask >> source & 1) == 0) fail("reads a lane that takes no part", where);
  return from_bits<T>(value_of_lane(mask, to_bits(value), source % warp_size, where));
}

}  // namespace mlk::emulator

inline void __syncwarp(unsigned mask = 0xffffffff,
                       const mlk::emulator::Where& where = mlk::emulator::Where::current()) {
  mlk::emulator::value_of_lane(mask, 0, 0, where);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int = 32,
              const mlk::emulator::Where& where = mlk::emulator::Where::current()) {
  return mlk::emulator::of_lane(mask, value, static_cast<unsigned>(source), where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int = 32,
                  const mlk::emulator::Where& where = mlk::emulator::Where::current()) {
  return mlk::emulator::of_lane(mask, value, mlk::emulator::lane() ^ static_cast<unsigned>(lanes), where);
}
// A lane gets its own value if its source would be beyond the last lane.
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int = 32,
                   const mlk::emulator::Where& where = mlk::emulator::Where::current()) {
  const unsigned own = mlk::emulator::lane(), source = own + lanes;
  return mlk::emulator::of_lane(mask, value, source < mlk::emulator::warp_size ? source : own, where);
}

// Returns a set bit for each lane of the mask whose predicate holds.
inline unsigned __ballot_sync(unsigned mask, bool predicate,
                              const mlk::emulator::Where& where = mlk::emulator::Where::current()) {
  const mlk::emulator::Lanes lanes = mlk::emulator::values_of_lanes(mask, predicate, where);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < mlk::emulator::warp_size; ++lane)
    bits |= static_cast<unsigned>(lanes.values[lane]) << lane;
  return bits;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }

// Atomic additions are relaxed, as CUDA's are: they do not order other accesses.
inline float atomicAdd(float* address, float value) {
  float before = __atomic_load_n(reinterpret_cast<std::uint32_t*>(address), __ATOMIC_RELAXED) == 0
                     ? 0.0f
                     : mlk::emulator::from_bits<float>(
                           __atomic_load_n(reinterpret_cast<std::uint32_t*>(address), __ATOMIC_RELAXED));
  auto old_bits = static_cast<std::uint32_t>(mlk::emulator::to_bits(before));
  while (!__atomic_compare_exchange_n(reinterpret_cast<std::uint32_t*>(address), &old_bits,
                                      static_cast<std::uint32_t>(mlk::emulator::to_bits(before + value)),
                                      false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    before = mlk::emulator::from_bits<float>(old_bits);
  }
  return before;
}
template <typename T>
  requires std::is_integral_v<T>
T atomicAdd(T* address, T value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
