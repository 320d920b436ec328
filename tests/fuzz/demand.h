// What a fuzzer holds its target to, beside what the sanitizers see.
#pragma once

namespace mlk::fuzz {

// Ends the fuzzer, which then keeps the input, unless it holds.
inline void demand(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace mlk::fuzz
