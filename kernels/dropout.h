// Decides which numbers a dropout keeps. The decision depends only on the mask and on the place of a number,
// so it is the same on every device.
#pragma once

#include <array>
#include <cstdint>

namespace mlk::kernels {

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words
// for each value of the counter.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(even)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

// A mask over an endless sequence of numbers. An operation covers the numbers from `first` on. For the number
// at place i, philox() makes four words: its counter is (i / 4, `stream`), and its key is `seed`. The number
// is dropped if word i % 4 is below probability * 2^32.
struct DropoutMask {
  float probability = 0;     // of being dropped, from 0 to below 1
  std::uint64_t seed = 0;    // of the run
  std::uint64_t stream = 0;  // separates the masks of one run
  std::uint64_t first = 0;

  constexpr std::uint32_t threshold() const { return static_cast<std::uint32_t>(probability * 0x1p32); }
  // The kept numbers are multiplied by this factor, so that the mean of all numbers stays about the same.
  constexpr float factor() const { return 1 / (1 - probability); }
  // The words of places 4 * block to 4 * block + 3.
  constexpr std::array<std::uint32_t, 4> words(std::uint64_t block) const {
    return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
  constexpr bool keeps(std::uint64_t place) const { return words(place / 4)[place % 4] >= threshold(); }
};

}  // namespace mlk::kernels
