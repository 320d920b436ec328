// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104): the processes of a run use them to prove that they have
// its key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mlk::rt {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> message);
Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

// Takes the same time wherever the two digests differ, so that an attacker cannot guess a digest byte by
// byte.
bool equal_in_constant_time(const Digest& a, const Digest& b);

}  // namespace mlk::rt
