// The checks of a fuzzer, in addition to those of the sanitizers.
#pragma once

namespace mlk::fuzz {

// Ends the fuzzer if the condition does not hold. The fuzzer then saves the input.
inline void demand(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace mlk::fuzz
