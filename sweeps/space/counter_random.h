// Random numbers that depend only on a seed, a stream and a count. Unlike the distributions of std::, they
// are the same on every machine and with every library.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace mlk::sweeps {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection whose every output bit depends on
// every input bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The numbers of one `stream` of a seed, one after the other.
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::uint64_t stream) : key_(mix(mix(seed) + stream)) {}

  // Returns a number in [0, 1).
  double uniform() { return static_cast<double>(mix(key_ + count_++) >> 11) * 0x1p-53; }

  // Returns a normally distributed number with mean 0 and deviation 1, by the method of Box and Muller
  // (1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t key_, count_ = 0;
};

}  // namespace mlk::sweeps
