// CRC-32C (Castagnoli), the checksum of checkpoints and of frames on the wire.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlk::rt {

// The checksum of `size` bytes, going on from the checksum of the bytes before them (0 at the start).
std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t previous = 0);

// The same by table, for processors without the instruction. Exposed so that a test can hold the two
// together.
std::uint32_t crc32c_portable(const void* data, std::size_t size, std::uint32_t previous = 0);

}  // namespace mlk::rt
