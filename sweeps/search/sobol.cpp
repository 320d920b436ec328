#include "sweeps/search/sobol.h"

#include <array>

#include "sweeps/space/counter_random.h"

namespace mlk::sweeps {
namespace {

constexpr unsigned bits = 32;
using Directions = std::array<std::uint32_t, bits>;

// A primitive polynomial x^s + a_1 x^(s-1) + ... + a_(s-1) x + 1, and its first s direction numbers. `degree`
// is s, and `inner` has the bits a_1 ... a_(s-1).
struct Polynomial {
  std::uint8_t degree, inner;
  std::array<std::uint8_t, 7> first;
};

// The first lines of new-joe-kuo-6.21201 (https://web.maths.unsw.edu.au/~fkuo/sobol/), from dimension 2 on:
// S. Joe and F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, SIAM J. Sci.
// Comput. 30 (2008). Copyright (c) 2008, Frances Y. Kuo and Stephen Joe; their licence is in NOTICE.
// clang-format off
constexpr std::array<Polynomial, sobol_dimensions - 1> polynomials{{
    {1, 0, {1}}, {2, 1, {1, 3}}, {3, 1, {1, 3, 1}}, {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}}, {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}}, {5, 4, {1, 1, 5, 5, 5}}, {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}}, {5, 13, {1, 1, 1, 3, 11}}, {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}}, {6, 13, {1, 1, 1, 15, 21, 21}}, {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}}, {6, 22, {1, 3, 1, 15, 13, 25}}, {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}}, {7, 4, {1, 3, 7, 13, 13, 15, 69}},
    {7, 7, {1, 1, 3, 13, 7, 35, 63}}, {7, 8, {1, 3, 5, 9, 1, 25, 53}},
    {7, 14, {1, 3, 1, 13, 9, 35, 107}}, {7, 19, {1, 3, 1, 5, 27, 61, 31}},
    {7, 21, {1, 1, 5, 11, 19, 41, 61}}, {7, 28, {1, 3, 5, 3, 3, 13, 69}},
    {7, 31, {1, 1, 7, 13, 1, 19, 1}}, {7, 32, {1, 3, 7, 5, 13, 19, 59}},
    {7, 37, {1, 1, 3, 9, 25, 29, 41}}, {7, 41, {1, 3, 5, 13, 23, 1, 55}},
    {7, 42, {1, 3, 7, 3, 13, 59, 17}}, {7, 50, {1, 3, 1, 3, 5, 53, 69}},
    {7, 55, {1, 1, 5, 5, 23, 33, 13}}, {7, 56, {1, 1, 7, 7, 1, 61, 123}},
    {7, 59, {1, 1, 7, 9, 13, 61, 49}}, {7, 62, {1, 3, 3, 5, 3, 55, 33}},
}};
// clang-format on

// Computes direction numbers by the recurrence of Bratley and Fox 1988, as fractions of 32 bits.
constexpr Directions directions_of(const Polynomial& polynomial) {
  Directions v{};
  const unsigned s = polynomial.degree;
  for (unsigned k = 0; k < bits; ++k) {
    if (k < s) {
      v[k] = static_cast<std::uint32_t>(polynomial.first[k]) << (bits - 1 - k);
      continue;
    }
    v[k] = v[k - s] ^ (v[k - s] >> s);
    for (unsigned j = 1; j < s; ++j) {
      if (polynomial.inner >> (s - 1 - j) & 1) v[k] ^= v[k - j];
    }
  }
  return v;
}

constexpr std::array<Directions, sobol_dimensions> all_directions() {
  std::array<Directions, sobol_dimensions> all{};
  for (unsigned k = 0; k < bits; ++k) all[0][k] = 1u << (bits - 1 - k);  // van der Corput's sequence
  for (std::size_t i = 1; i < all.size(); ++i) all[i] = directions_of(polynomials[i - 1]);
  return all;
}

constexpr auto directions = all_directions();

// Flips some of the bits. Whether a bit is flipped depends on the seed and on all bits above this bit. So the
// halves of each interval are swapped at random.
std::uint32_t scrambled(std::uint64_t key, std::uint32_t x) {
  std::uint32_t result = 0;
  for (unsigned bit = 0; bit < bits; ++bit) {
    // The 1 in front makes bits such as 0 and 00 different.
    const std::uint64_t above = (1ull << bit) | (bit == 0 ? 0 : x >> (bits - bit));
    const auto flip = static_cast<std::uint32_t>(mix(key + above) & 1);
    result = result << 1 | ((x >> (bits - 1 - bit) & 1) ^ flip);
  }
  return result;
}

}  // namespace

double sobol(std::uint64_t seed, std::size_t dimension, std::uint32_t index) {
  const std::uint64_t key = mix(mix(seed) + dimension);
  if (dimension >= sobol_dimensions) return static_cast<double>(mix(key + index) >> 32) * 0x1p-32;
  std::uint32_t x = 0;
  for (unsigned k = 0; index >> k != 0; ++k) {
    if (index >> k & 1) x ^= directions[dimension][k];
    if (k + 1 == bits) break;
  }
  return scrambled(key, x) * 0x1p-32;
}

}  // namespace mlk::sweeps
