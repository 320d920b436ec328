// Counter-based random numbers: pure functions with the same bits on every machine. Each number is computed
// directly from its index.
#pragma once

#include <cstdint>

namespace mlk::rt {

// The finaliser of SplitMix64: a bijection in which every output bit depends on every input bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Uniform in [0, 1). The number is a multiple of 2^-24, so the float is exact. `stream` separates numbers for
// different purposes.
constexpr float uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<float>(mix(mix(mix(seed) + stream) + index) >> 40) * 0x1p-24f;
}

// Nearly normal with mean 0 and variance 1, always between -6 and 6: the sum of twelve uniform numbers. This
// sum is exact on every machine, while logarithms and cosines are not.
constexpr float normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t key = mix(mix(mix(seed) + stream) + index);
  constexpr std::int64_t mean = 12 * 65535 / 2;
  std::int64_t sum = 0;
  for (std::uint64_t word = 0; word < 3; ++word) {
    for (std::uint64_t bits = mix(key + word), part = 0; part < 4; ++part, bits >>= 16)
      sum += static_cast<std::int64_t>(bits & 0xffff);
  }
  return static_cast<float>(sum - mean) * 0x1p-16f;
}

}  // namespace mlk::rt
