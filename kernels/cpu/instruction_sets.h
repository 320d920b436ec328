// The instruction sets that loops are compiled for, and which of them this processor has.
#pragma once

#include <span>

#define MLK_INLINE [[gnu::always_inline]] inline

#if defined(__x86_64__) && defined(__GNUC__)
#define MLK_AVX512_AND_AVX2 1
#define MLK_FOR_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")]]
#define MLK_FOR_AVX2 [[gnu::target("avx2")]]
#else
#define MLK_AVX512_AND_AVX2 0
#endif

// NOLINTBEGIN(bugprone-macro-parentheses): attributes cannot have parentheses around them.
// Defines a template whose call() is `loop`, compiled with these attributes. The loop is a function with
// MLK_INLINE, so each copy is compiled for its own instruction set.
#define MLK_COMPILED_LOOP(Name, attributes)                                                 \
  template <auto loop>                                                                      \
  struct Name;                                                                              \
  template <typename Result, typename... Parameters, Result (*loop)(Parameters...)>         \
  struct Name<loop> {                                                                       \
    attributes static Result call(Parameters... parameters) { return loop(parameters...); } \
  }
// NOLINTEND(bugprone-macro-parentheses)

namespace mlk::kernels {

// tables: either three tables of functions (for AVX-512, for AVX2 and for any processor), or only the last of
// them. Returns the tables that this processor can run, the fastest first. The result is never empty.
template <typename Table>
std::span<const Table> that_run_here(std::span<const Table> tables) {
#if MLK_AVX512_AND_AVX2
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return tables;
  }
  return tables.subspan(__builtin_cpu_supports("avx2") ? 1 : 2);
#else
  return tables;
#endif
}

}  // namespace mlk::kernels
