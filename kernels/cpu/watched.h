// The thread sanitizer follows each number that a loop touches, which makes the loop many times slower. So
// the loops in which a training step spends most of its time are not instrumented. Instead each call of such
// a loop reports once to the sanitizer which numbers it reads and writes, so the sanitizer still finds races
// on these numbers.
#pragma once

#include <cstddef>

#include "kernels/cpu/instruction_sets.h"

#if defined(__SANITIZE_THREAD__)
#define MLK_UNWATCHED [[gnu::no_sanitize_thread]]
extern "C" {  // functions of the run-time library of the sanitizer
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
}
#else
#define MLK_UNWATCHED
#endif

namespace mlk::kernels {

// The calling thread reads x[0] to x[size - 1].
template <typename Number>
MLK_INLINE void reads([[maybe_unused]] const Number* x, [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_THREAD__)
  if (size > 0) __tsan_read_range(const_cast<Number*>(x), size * sizeof(Number));
#endif
}

// The calling thread writes x[0] to x[size - 1], and may read them.
template <typename Number>
MLK_INLINE void writes([[maybe_unused]] Number* x, [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_THREAD__)
  if (size > 0) __tsan_write_range(x, size * sizeof(Number));
#endif
}

}  // namespace mlk::kernels
