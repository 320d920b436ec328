// SHA-256 by the instructions that many processors have for it: five times as fast as the plain loop. mlk-pod
// hashes all that it sends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mlk::rt {

// Whether this processor has the instructions.
bool has_sha_extensions();

extern const std::uint32_t sha256_constants[64];  // of the rounds

// Both add one block of 64 bytes to the state (FIPS 180-4, section 6.2.2). Call the first one only if
// has_sha_extensions().
void compress_by_extensions(std::array<std::uint32_t, 8>& state, const std::byte* block);
void compress_plainly(std::array<std::uint32_t, 8>& state, const std::byte* block);

}  // namespace mlk::rt
