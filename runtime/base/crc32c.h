// CRC-32C (Castagnoli), the checksum of checkpoints and of frames on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mlk::rt {

// The checksum of `size` bytes, continued from `previous`, the checksum of the bytes before them (0 at the
// start).
std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t previous = 0);

// The implementations that this processor can run, the fastest first, the table-driven one last. Public so
// that a test can compare them.
using Crc32c = std::uint32_t (*)(const void* data, std::size_t size, std::uint32_t previous);
std::span<const Crc32c> crc32c_ways();

}  // namespace mlk::rt
