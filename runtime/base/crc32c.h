// CRC-32C (Castagnoli), the checksum of checkpoints and of frames on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mlk::rt {

// The checksum of `size` bytes, going on from the checksum of the bytes before them (0 at the start).
std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t previous = 0);

// The ways to compute it that this processor has, the fastest first, the last one by table. Exposed so that a
// test can hold them together.
using Crc32c = std::uint32_t (*)(const void* data, std::size_t size, std::uint32_t previous);
std::span<const Crc32c> crc32c_ways();

}  // namespace mlk::rt
