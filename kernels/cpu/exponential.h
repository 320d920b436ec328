// An exponential that compilers can vectorise, with the same bits for every instruction set.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cpu/instruction_sets.h"

namespace mlk::kernels {

// Returns e^x, exact to a few units in the last place. x is at most 0, or slightly above 0 because of
// rounding. For x below -80 the result is e^-80, because denormal results would be slow. NaN stays NaN.
// e^x = 2^n e^r, where n is a whole number and |r| is at most half of log 2. 2^n is made from its bits, and
// e^r by its series.
MLK_INLINE float exponential(float x) {
  constexpr float lowest = -80;
  constexpr float whole = 0x1.8p23f;  // its last bit has the value 1, so x + whole is rounded to an integer
  constexpr float per_log2 = 1.44269504f, log2 = 0.693359375f, log2_beyond = 2.12194440e-4f;
  const float value = x < lowest ? lowest : x;
  const float rounded = value * per_log2 + whole, n = rounded - whole;
  const float r = (value - n * log2) + n * log2_beyond;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1;
  series = series * r + 1;
  return series * std::bit_cast<float>((std::bit_cast<std::uint32_t>(rounded) + 127) << 23);
}

}  // namespace mlk::kernels
