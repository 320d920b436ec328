// A keyed permutation for each epoch: a Feistel network over the smallest even number of bits that holds the
// data set, applied until the value is inside the data set.
#include "runtime/data/sampler.h"

#include <bit>

#include "runtime/base/random.h"

namespace mlk::rt {
namespace {

// A permutation of [0, 4^half_bits) for any round function, since each round is invertible.
std::uint64_t feistel(std::uint64_t value, int half_bits, std::uint64_t key) {
  constexpr int rounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits, right = value & mask;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t next = left ^ (mix(right + key + static_cast<std::uint64_t>(round)) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

std::uint64_t sample_at(std::uint64_t seed, std::uint64_t position, std::uint64_t dataset_size) {
  if (dataset_size <= 1) return 0;
  const std::uint64_t epoch = position / dataset_size;
  const std::uint64_t key = mix(mix(seed) + epoch);
  const int half_bits = (static_cast<int>(std::bit_width(dataset_size - 1)) + 1) / 2;
  // The domain is less than four times as large as the data set, so the loop takes fewer than four iterations
  // on average. The loop ends, because a permutation that is repeated leads back to its start, which is
  // inside the data set.
  std::uint64_t value = position % dataset_size;
  do {
    value = feistel(value, half_bits, key);
  } while (value >= dataset_size);
  return value;
}

}  // namespace mlk::rt
