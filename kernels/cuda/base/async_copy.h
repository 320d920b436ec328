// Asynchronous copies from global memory to shared memory. They run beside the thread that has begun them,
// and use no registers (cp.async, compute capability 8.0).
//
// A thread begins copies, ends their group, and later waits until at most `open` of its groups are in
// progress. Then the thread sees the results of its own copies; after a barrier, other threads see them.
#pragma once

#include <cstdint>

#include "kernels/cuda/base/cuda.h"

namespace mlk::cuda {

#ifdef __CUDACC__

// bytes: 4, 8 or 16. Both addresses are aligned to this number of bytes. Bytes beyond `available` become 0
// and are not read.
template <unsigned bytes>
__device__ void copy_async(void* to, const void* from, unsigned available = bytes) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {  // bypasses L1: other blocks read these bytes again, this block does not
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(available)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(bytes),
                 "r"(available)
                 : "memory");
  }
}

__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <unsigned open>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

#else

template <unsigned bytes>
void copy_async(void* to, const void* from, unsigned available = bytes,
                const emulator::Where& where = emulator::Where::current()) {
  emulator::copy_async(to, from, bytes, available, where);
}

inline void end_copies() { emulator::end_group_of_copies(); }

template <unsigned open>
void wait_for_copies() {
  emulator::wait_for_copies(open);
}

#endif

}  // namespace mlk::cuda
