// The order of the samples of a run: a pure function of seed and position.
#pragma once

#include <cstdint>

namespace mlk::rt {

// The id of the sample at `position`, which counts from 0 over the whole run. The id is below dataset_size,
// and dataset_size is at least 1. Positions [e * dataset_size, (e + 1) * dataset_size) are epoch e, which has
// each id exactly once, in an order of its own. There is no state to share: a step of the run is a range of
// positions, which the live workers may split in any way.
std::uint64_t sample_at(std::uint64_t seed, std::uint64_t position, std::uint64_t dataset_size);

}  // namespace mlk::rt
