// Points that fill a cube more evenly than random points: Sobol's sequence, scrambled. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlk::sweeps {

constexpr std::size_t sobol_dimensions = 37;

// One coordinate of a point, in [0, 1), a multiple of 2^-32. The sequence is Sobol's with the direction
// numbers of Joe and Kuo, scrambled as in Owen 1995. For every seed and in every dimension below
// `sobol_dimensions`, each of 2^k equal intervals contains one of the first 2^k points. In higher dimensions
// the coordinates are pseudo-random.
double sobol(std::uint64_t seed, std::size_t dimension, std::uint32_t index);

}  // namespace mlk::sweeps
