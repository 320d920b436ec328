// SHA-256 and HMAC-SHA-256 as published. The plain loop is for processors without instructions for it.
#include "runtime/base/hmac.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "runtime/base/sha_extensions.h"

namespace mlk::rt {
namespace {

constexpr std::size_t block_size = 64;

using State = std::array<std::uint32_t, 8>;

void add_block(State& state, const std::byte* block) {
  if (has_sha_extensions()) {
    compress_by_extensions(state, block);
  } else {
    compress_plainly(state, block);
  }
}

}  // namespace

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const std::uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress_plainly(State& state, const std::byte* block) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = std::to_integer<std::uint32_t>(block[4 * i]) << 24 |
           std::to_integer<std::uint32_t>(block[4 * i + 1]) << 16 |
           std::to_integer<std::uint32_t>(block[4 * i + 2]) << 8 |
           std::to_integer<std::uint32_t>(block[4 * i + 3]);
  }
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + s1 + choice + sha256_constants[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + s0 + majority;
  }
  const State sums = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += sums[i];
}

void Sha256::add(std::span<const std::byte> part) {
  const std::size_t held = size_ % block_size;
  size_ += part.size();
  if (held > 0) {
    const std::size_t more = std::min(block_size - held, part.size());
    std::copy_n(part.begin(), more, rest_.begin() + static_cast<std::ptrdiff_t>(held));
    part = part.subspan(more);
    if (held + more < block_size) return;
    add_block(state_, rest_.data());
  }
  for (; part.size() >= block_size; part = part.subspan(block_size)) add_block(state_, part.data());
  std::copy(part.begin(), part.end(), rest_.begin());
}

Digest Sha256::digest() const {
  // The remaining bytes, one bit of value 1, zeros, and the length in bits: together they fill one block or
  // two.
  State state = state_;
  std::byte tail[2 * block_size] = {};
  const std::size_t rest = size_ % block_size;
  std::copy_n(rest_.begin(), rest, tail);
  tail[rest] = std::byte{0x80};
  const std::size_t tail_size = rest + 9 <= block_size ? block_size : 2 * block_size;
  const std::uint64_t bits = size_ * 8;
  for (std::size_t i = 0; i < 8; ++i) tail[tail_size - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  for (std::size_t at = 0; at < tail_size; at += block_size) add_block(state, tail + at);

  Digest digest;
  for (std::size_t i = 0; i < 32; ++i) digest[i] = static_cast<std::byte>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::span<const std::byte> message) {
  Sha256 hash;
  hash.add(message);
  return hash.digest();
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  std::array<std::byte, block_size> padded = {};
  if (key.size() > block_size) {
    const Digest hashed = sha256(key);
    std::copy(hashed.begin(), hashed.end(), padded.begin());
  } else {
    std::copy(key.begin(), key.end(), padded.begin());
  }
  const auto keyed = [&padded](std::byte pad, std::span<const std::byte> text) {
    std::vector<std::byte> input;
    input.reserve(block_size + text.size());
    for (const std::byte b : padded) input.push_back(b ^ pad);
    input.insert(input.end(), text.begin(), text.end());
    return sha256(input);
  };
  const Digest inner = keyed(std::byte{0x36}, message);
  return keyed(std::byte{0x5c}, inner);
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace mlk::rt
