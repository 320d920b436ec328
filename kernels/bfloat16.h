// bfloat16: the upper half of a float32, with the range of float32 and 8 bits of precision.
#pragma once

#include <bit>
#include <cstdint>

namespace mlk::kernels {

struct BFloat16 {
  std::uint16_t bits = 0;

  constexpr float value() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// Rounds to the nearest bfloat16. If two are equally near, rounds to the even one. NaN stays NaN.
[[gnu::always_inline]] constexpr BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40;
  return {static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : nearest)};
}

}  // namespace mlk::kernels
