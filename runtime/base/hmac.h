// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104): the processes of a run use them to prove that they have
// its key, and mlk-pod to prove that a file has come whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mlk::rt {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> message);

// SHA-256 of a message that comes in parts.
class Sha256 {
 public:
  void add(std::span<const std::byte> part);
  Digest digest() const;  // of all parts until now

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};  // the last bytes, which do not fill a block
  std::uint64_t size_ = 0;            // of all parts
};

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

// Takes the same time wherever the two digests differ, so that an attacker cannot guess a digest byte by
// byte.
bool equal_in_constant_time(const Digest& a, const Digest& b);

}  // namespace mlk::rt
