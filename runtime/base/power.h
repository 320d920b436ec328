// Powers with the same bits on every processor; std::pow does not guarantee that.
#pragma once

#include <cstdint>

namespace mlk::rt {

// base^exponent by squaring: multiplication rounds to the same bits everywhere.
constexpr double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

}  // namespace mlk::rt
