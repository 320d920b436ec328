// Powers with the same bits on every processor, which std::pow does not promise.
#pragma once

#include <cstdint>

namespace mlk::rt {

// base^exponent, by squaring: multiplications are exact to the last bit everywhere.
constexpr double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

}  // namespace mlk::rt
